//! The connection to a browser: JSON texts, each followed by a zero byte.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

/// Timeout that ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends calls one at a time, and records events of the browser meanwhile.
pub(super) struct Pipe {
    out: ChildStdin,
    heard: Receiver<Value>,
    calls: u64,
    complaints: Vec<String>,
}

impl Pipe {
    /// Uses the standard input and output of a process.
    pub(super) fn new(child: &mut Child) -> Self {
        let out = child.stdin.take().expect("stdin is piped");
        let input = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (tell, heard) = channel();
        // A thread can wait for the browser and for a timeout at once.
        std::thread::spawn(move || {
            for text in input.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&text) else { break };
                if tell.send(message).is_err() {
                    break;
                }
            }
        });
        Self { out, heard, calls: 0, complaints: Vec::new() }
    }

    /// Calls a method and waits for its answer.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, String> {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        self.out.write_all(format!("{call}\0").as_bytes()).map_err(|error| error.to_string())?;
        loop {
            let mut heard = self.heard.recv_timeout(PATIENCE).map_err(|error| error.to_string())?;
            if heard["id"] != self.calls {
                self.note(&heard);
            } else if let Some(error) = heard.get("error") {
                return Err(error["message"].as_str().unwrap_or_default().to_owned());
            } else {
                return Ok(heard["result"].take());
            }
        }
    }

    /// Errors and warnings of scripts and of the browser so far.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        while let Ok(event) = self.heard.try_recv() {
            self.note(&event);
        }
        self.complaints.clone()
    }

    /// Waits until the browser closes the pipe.
    pub(super) fn wait_for_end(&mut self) {
        while self.heard.recv_timeout(PATIENCE).is_ok() {}
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => thrown(&params["exceptionDetails"]),
            "Runtime.consoleAPICalled" if is_bad(&params["type"]) => params["args"].to_string(),
            "Log.entryAdded" if is_bad(&params["entry"]["level"]) => {
                let entry = &params["entry"];
                format!("{} {} {}", entry["source"], entry["text"], entry["url"])
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }
}

fn is_bad(level: &Value) -> bool {
    ["error", "warning", "assert"].contains(&level.as_str().unwrap_or_default())
}

/// The exception of a script, for people.
pub(super) fn thrown(details: &Value) -> String {
    let text = details["exception"]["description"].as_str().or(details["text"].as_str());
    text.unwrap_or("an exception").to_owned()
}

/// The bytes of base64.
pub(super) fn decoded(base64: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut held, mut bits) = (Vec::new(), 0_usize, 0);
    for digit in base64.bytes().filter_map(|it| digits.iter().position(|digit| *digit == it)) {
        held = (held << 6 | digit) & 0xffff;
        bits += 6;
        if 8 <= bits {
            bits -= 8;
            out.push((held >> bits & 0xff) as u8);
        }
    }
    out
}
