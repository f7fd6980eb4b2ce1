//! Answering to tasks.

use std::{io, io::Write, net::TcpStream, sync::Arc, thread};

use serde_json::{Value, json};
use steadfast_fake_http as http;

use super::{KEY, Shared, behaviour::Webhooks, record::Record};

/// The result of a submission.
enum Taken {
    /// An element for `data`, if any.
    Data(Option<Value>),
    /// An element for `errors`.
    Error(Value),
    /// All of the answer, with headers.
    Status(u16, String),
    /// Something that is no answer; the word says what.
    Other(&'static str),
}

impl Shared {
    pub(super) fn serve(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let request = http::Request::read(&stream)?;
        match request.path().strip_prefix("/file/") {
            Some(name) => self.serve_file(&stream, name),
            None => self.serve_tasks(&stream, &request),
        }
    }

    fn serve_tasks(
        self: &Arc<Self>,
        stream: &TcpStream,
        request: &http::Request,
    ) -> io::Result<()> {
        let Ok(Value::Array(tasks)) = serde_json::from_slice(&request.body) else {
            return refuse(stream, 400, "invalidJSON", "", None);
        };
        let kind = |it: &Value| it.get("taskType").and_then(Value::as_str).map(str::to_owned);
        let inline = tasks.iter().find(|it| kind(it).as_deref() == Some("authentication"));
        let key = inline.and_then(|it| it.get("apiKey")?.as_str());
        let bearer = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        if key.or(bearer) != Some(KEY) {
            return refuse(stream, 401, "invalidApiKey", "", None);
        }
        let (mut data, mut errors, mut webhooks) = (Vec::new(), Vec::new(), Vec::new());
        for task in &tasks {
            let id = task.get("taskUUID").and_then(Value::as_str).unwrap_or_default().to_owned();
            let kind = kind(task).unwrap_or_default();
            match kind.as_str() {
                "authentication" => data.push(json!({ "taskType": "authentication" })),
                "getResponse" => self.poll(&id, &mut data, &mut errors),
                "getTaskDetails" => self.details(&id, &mut data, &mut errors),
                "imageInference" | "videoInference" => {
                    let (taken, when) = self.submit(&id, task);
                    if matches!(when, Some(Webhooks::First)) {
                        self.send_webhook(&id);
                    }
                    match taken {
                        Taken::Data(element) => data.extend(element),
                        Taken::Error(error) => errors.push(error),
                        Taken::Status(status, headers) => {
                            return refuse(stream, status, code_of(status), &headers, Some(&id));
                        }
                        Taken::Other(word) => return misbehave(stream, word),
                    }
                    webhooks.extend(when.map(|it| (id, it)));
                }
                _ => errors.push(error("unsupportedTaskType", &id)),
            }
        }
        let status = if data.is_empty() && !errors.is_empty() { 400 } else { 200 };
        let body = match errors.is_empty() {
            true => json!({ "data": data }),
            false => json!({ "data": data, "errors": errors }),
        };
        http::answer(stream, status, JSON, body.to_string().as_bytes())?;
        for (id, when) in webhooks {
            let count = match when {
                Webhooks::Once => 1,
                Webhooks::Twice => 2,
                Webhooks::First | Webhooks::Late | Webhooks::Never => 0,
            };
            let shared = Arc::clone(self);
            thread::spawn(move || (0..count).for_each(|_| shared.send_webhook(&id)));
        }
        Ok(())
    }

    /// Takes a task or not, and says when its webhook is to come.
    fn submit(&self, id: &str, task: &Value) -> (Taken, Option<Webhooks>) {
        let base = format!("http://{}", self.address);
        let mut tasks = self.tasks();
        let record = tasks.entry(id.to_owned()).or_insert_with(|| Record::new(task));
        record.submissions += 1;
        if task.get("numberResults") != Some(&json!(1)) {
            return (Taken::Error(error("invalidNumberResults", id)), None);
        }
        if let Some(status) = record.behaviour.failure(record.submissions) {
            return (Taken::Status(status, record.behaviour.headers(status)), None);
        }
        let is_running = 0 < record.billings && record.is_under_way();
        if is_running {
            return (Taken::Error(error("conflictTaskUUID", id)), None);
        }
        let failed = record.error();
        if let (Some(error), true) = (&failed, record.is_sync()) {
            return (Taken::Error(error.clone()), None);
        }
        if failed.is_none() {
            record.billings += 1;
        }
        let behaviour = &record.behaviour;
        let other = ["drop-answer", "hang", "nonsense", "huge-answer"];
        if let Some(word) = other.into_iter().find(|it| behaviour.has(it)) {
            return (Taken::Other(word), None);
        }
        let when = task.get("webhookURL").map(|_| behaviour.webhooks);
        let data = match (record.is_sync(), behaviour.has("taken-silently")) {
            (_, true) => None,
            (true, false) => Some(record.result(&base)),
            (false, false) => Some(json!({ "taskType": record.text("taskType"), "taskUUID": id })),
        };
        (Taken::Data(data), when)
    }

    fn poll(&self, id: &str, data: &mut Vec<Value>, errors: &mut Vec<Value>) {
        let base = format!("http://{}", self.address);
        let mut tasks = self.tasks();
        // A task that was delivered with its answer is not kept for polls.
        let is_known = |it: &&mut Record| {
            let has = |word| it.behaviour.has(word);
            !it.is_sync()
                && !has("forget")
                && !has("forget-response")
                && !has("expire-response")
                && 0 < it.submissions
        };
        let is_taken = |it: &&mut Record| 0 < it.billings || it.error().is_some();
        let Some(record) = tasks.get_mut(id).filter(is_known).filter(is_taken) else {
            if let Some(record) = tasks.get_mut(id) {
                record.polls += 1;
                if record.behaviour.has("expire-response") {
                    return errors.push(error("taskExpired", id));
                }
            }
            return errors.push(error("taskFailedOrNotFound", id));
        };
        if record.is_under_way() {
            data.push(record.progress(50));
        } else if let Some(error) = record.error() {
            errors.push(error);
        } else {
            data.push(record.result(&base));
            if record.behaviour.has("partial") && record.polls == 0 {
                data.push(record.progress(80));
            }
        }
        record.polls += 1;
    }

    fn details(&self, id: &str, data: &mut Vec<Value>, errors: &mut Vec<Value>) {
        let base = format!("http://{}", self.address);
        let tasks = self.tasks();
        let behaviour = tasks.get(id).map(|it| &it.behaviour);
        if let Some(code) = behaviour.and_then(|it| it.after("details")) {
            return errors.push(error(code, id));
        }
        if behaviour.is_some_and(|it| it.has("details-silent")) {
            return;
        }
        let found = tasks.get(id).filter(|it| 0 < it.billings && !it.behaviour.has("forget"));
        let Some(record) = found else { return errors.push(error("taskNotFound", id)) };
        data.push(json!({
            "taskType": "getTaskDetails",
            "taskUUID": id,
            "request": record.request,
            "response": { "data": [record.result(&base)] },
        }));
    }
}

pub(super) const JSON: &str = "content-type: application/json\r\n";

pub(super) fn error(code: &str, task: &str) -> Value {
    json!({ "code": code, "message": "No.", "taskUUID": task })
}

fn code_of(status: u16) -> &'static str {
    match status {
        401 => "invalidApiKey",
        402 => "insufficientCredits",
        429 => "rateLimitExceeded",
        500.. => "",
        _ => "invalidParameter",
    }
}

/// Refuses all of it. Servers in front of the service have no code, and answer in HTML.
fn refuse(
    stream: &TcpStream,
    status: u16,
    code: &str,
    headers: &str,
    task: Option<&str>,
) -> io::Result<()> {
    if code.is_empty() {
        let headers = format!("content-type: text/html\r\n{headers}");
        return http::answer(stream, status, &headers, b"<html>Oh</html>");
    }
    let headers = format!("{JSON}{headers}");
    let mut error = error(code, "");
    match task {
        Some(task) => error["taskUUID"] = json!(task),
        None => error["taskUUID"] = Value::Null,
    }
    let body = json!({ "data": [], "errors": [error] });
    http::answer(stream, status, &headers, body.to_string().as_bytes())
}

fn misbehave(mut stream: &TcpStream, word: &str) -> io::Result<()> {
    match word {
        "hang" => http::wait_for_the_end(stream),
        "nonsense" => http::answer(stream, 200, "", b"<html>All is well.</html>")?,
        "huge-answer" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            let blanks = [b' '; 64 << 10];
            (0..1_024).try_for_each(|_| stream.write_all(&blanks))?;
        }
        _ => {}
    }
    Ok(())
}
