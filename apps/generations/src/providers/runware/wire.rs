//! Answers and webhooks, which have the same shape: `data`, one element for each result or for each
//! task that was taken, and `errors`, each for a task or for all of it.

use std::{collections::HashMap, time::Duration};

use serde_json::{Map, Value, json};

use super::taxonomy;
use crate::providers::{
    error::GenerateError,
    media::MediaKind,
    provider::{Output, OutputSource, Report, TaskState},
};

/// Where an element may have the address of its result, and beside it its id.
const RESULTS: [(&str, &str); 3] =
    [("imageURL", "imageUUID"), ("videoURL", "videoUUID"), ("mediaURL", "mediaUUID")];

/// An answer, taken apart.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    data: Vec<Value>,
    errors: Vec<Value>,
}

impl Answer {
    /// Takes a body apart. One that is not of the protocol is an error of its status.
    pub(super) fn parse(
        status: u16,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Result<Self, GenerateError> {
        let parsed = serde_json::from_slice(body).ok().and_then(Self::from_body);
        match parsed {
            Some((data, errors)) => Ok(Self { status, retry_after, data, errors }),
            None => Err(taxonomy::of_status(status, retry_after)),
        }
    }

    fn from_body(body: Value) -> Option<(Vec<Value>, Vec<Value>)> {
        let Value::Object(mut body) = body else { return None };
        let list = |it: Option<Value>| match it {
            Some(Value::Array(list)) => Some(list),
            Some(_) | None => None,
        };
        let (data, errors) = (list(body.remove("data")), list(body.remove("errors")));
        // Errors before a stream begins come alone, with the task beside them.
        let alone = body.remove("error").filter(Value::is_object).map(|mut error| {
            if let (Some(error), Some(task)) = (error.as_object_mut(), body.remove("taskUUID")) {
                error.entry("taskUUID").or_insert(task);
            }
            vec![error]
        });
        let errors = errors.or(alone);
        if data.is_none() && errors.is_none() {
            return None;
        }
        Some((data.unwrap_or_default(), errors.unwrap_or_default()))
    }

    /// An error of the status if the answer itself says nothing.
    pub(super) fn or_status(self) -> Result<Self, GenerateError> {
        match (200..300).contains(&self.status) || !self.errors.is_empty() {
            true => Ok(self),
            false => Err(taxonomy::of_status(self.status, self.retry_after)),
        }
    }

    /// Why a question was not answered at all, whatever task the error names.
    pub(super) fn refusal(&self) -> Option<GenerateError> {
        let is_refused = matches!(self.status, 401..=403 | 408 | 429 | 500..);
        let error = self.errors.first().filter(|_| is_refused)?;
        let error = taxonomy::of_error(error, self.status, self.retry_after);
        (!taxonomy::is_missing(&error)).then_some(error)
    }

    /// The answer that `getTaskDetails` recorded for a task, in the shape that it had then.
    pub(super) fn details(&self, task: &str) -> Option<Answer> {
        let is_ours = |it: &&Value| task_of(it).is_some_and(|it| it.eq_ignore_ascii_case(task));
        let mut response = self.data.iter().find(is_ours)?.get("response")?.clone();
        if response.is_array() {
            response = json!({ "data": response });
        }
        let (data, errors) = match Self::from_body(response.clone()) {
            Some(parts) => parts,
            None if response.is_object() => (vec![response], Vec::new()),
            None => return None,
        };
        Some(Answer { status: 200, retry_after: None, data, errors })
    }
}

/// The reports of an answer about each task, in its order.
pub(super) fn reports(answer: &Answer) -> Vec<Report> {
    let mut found: Vec<(Option<String>, Found)> = Vec::new();
    // An answer of megabytes may name a task in each element.
    let mut places: HashMap<Option<String>, usize> = HashMap::new();
    let mut add = |element: &Value, one: Found| {
        let task = task_of(element).map(str::to_owned);
        match places.get(&task) {
            Some(place) => found[*place].1.add(one),
            None => {
                places.insert(task.clone(), found.len());
                found.push((task, one));
            }
        }
    };
    for element in &answer.data {
        let kind = element.get("taskType").and_then(Value::as_str);
        if !element.is_object() || matches!(kind, Some("authentication" | "ping")) {
            continue;
        }
        let status = element.get("status").and_then(Value::as_str);
        let one = match (output(element), status) {
            (_, Some("error")) => Found::failed(taxonomy::of_error(element, answer.status, None)),
            (Some(output), _) => Found { outputs: vec![output], ..Found::default() },
            (None, _) => {
                let progress = element.get("progress").and_then(Value::as_f64);
                let progress = progress.map(|it| it.clamp(0.0, 100.0) as u8);
                Found { is_under_way: true, progress, ..Found::default() }
            }
        };
        add(element, one);
    }
    for error in &answer.errors {
        let failed = taxonomy::of_error(error, answer.status, answer.retry_after);
        add(error, Found::failed(failed));
    }
    found.into_iter().map(|(task, found)| Report { task, state: found.state() }).collect()
}

/// The elements of an answer about one task.
#[derive(Default)]
struct Found {
    outputs: Vec<Output>,
    is_under_way: bool,
    progress: Option<u8>,
    error: Option<GenerateError>,
}

impl Found {
    fn failed(error: GenerateError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.outputs.extend(other.outputs);
        self.is_under_way |= other.is_under_way;
        self.progress = self.progress.or(other.progress);
        self.error = self.error.take().or(other.error);
    }

    /// An output counts more than an error beside it.
    fn state(self) -> TaskState {
        match self {
            Found { is_under_way: true, error: None, progress, outputs } => {
                TaskState::InProgress { progress, outputs }
            }
            Found { outputs, .. } if !outputs.is_empty() => TaskState::Finished(outputs),
            Found { error: Some(error), .. } => TaskState::Failed(error),
            Found { progress, outputs, .. } => TaskState::InProgress { progress, outputs },
        }
    }
}

fn task_of(element: &Value) -> Option<&str> {
    element.get("taskUUID").and_then(Value::as_str)
}

fn output(element: &Value) -> Option<Output> {
    let element: &Map<String, Value> = element.as_object()?;
    let text = |it: &str| element.get(it).and_then(Value::as_str).map(str::to_owned);
    let (url, id) = RESULTS.iter().find_map(|(url, id)| Some((text(url)?, text(id))))?;
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let extension = path.rsplit_once('.').map(|(_, it)| it);
    let media = extension.and_then(MediaKind::of_extension);
    Some(Output {
        id,
        source: OutputSource::Url { url },
        seed: element.get("seed").and_then(Value::as_u64),
        cost: element.get("cost").and_then(Value::as_f64).filter(|it| 0.0 <= *it),
        content_type: media.map(|it| it.content_type().to_owned()),
        raw: Value::Object(element.clone()),
    })
}

#[cfg(test)]
mod tests;
