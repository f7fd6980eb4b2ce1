//! The record of a task.

use serde_json::{Value, json};

use super::behaviour::Behaviour;

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) request: Value,
    pub(super) behaviour: Behaviour,
    pub(super) submissions: u32,
    pub(super) billings: u32,
    pub(super) polls: u32,
    pub(super) webhooks: Vec<u16>,
}

impl Record {
    pub(super) fn new(request: &Value) -> Self {
        let prompt = request.get("positivePrompt").and_then(Value::as_str).unwrap_or_default();
        Self {
            request: request.clone(),
            behaviour: Behaviour::of(prompt),
            submissions: 0,
            billings: 0,
            polls: 0,
            webhooks: Vec::new(),
        }
    }

    pub(super) fn text(&self, field: &str) -> &str {
        self.request.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn is_sync(&self) -> bool {
        self.text("deliveryMethod") == "sync"
    }

    /// Whether polls still say that it is in progress.
    pub(super) fn is_under_way(&self) -> bool {
        let polls = self.behaviour.after("polls").and_then(|it| it.parse().ok()).unwrap_or(0);
        !self.is_sync() && (self.behaviour.has("never-done") || self.polls < polls)
    }

    /// The error it ends in, if it does.
    pub(super) fn error(&self) -> Option<Value> {
        let code = self.behaviour.after("error")?;
        Some(json!({
            "code": code,
            "status": "error",
            "message": "This is what the prompt asked for.",
            "parameter": "positivePrompt",
            "type": "string",
            "documentation": "https://runware.ai/docs/platform/errors",
            "taskType": self.text("taskType"),
            "taskUUID": self.text("taskUUID"),
        }))
    }

    /// Its result, as in answers, polls and webhooks.
    pub(super) fn result(&self, base: &str) -> Value {
        let task = self.text("taskUUID");
        let is_image = self.text("taskType") == "imageInference";
        let (url, id, extension, cost) = match is_image {
            true => ("imageURL", "imageUUID", "png", 0.0013),
            false => ("videoURL", "videoUUID", "mp4", 0.35),
        };
        let seed = self.request.get("seed").cloned().unwrap_or(json!(42));
        json!({
            "taskType": self.text("taskType"),
            "taskUUID": task,
            "status": "success",
            id: task.replace('-', "").chars().rev().collect::<String>(),
            url: format!("{base}/file/{task}.{extension}"),
            "seed": seed,
            "cost": cost,
        })
    }

    /// The element that says that it is in progress.
    pub(super) fn progress(&self, progress: u8) -> Value {
        json!({
            "taskType": self.text("taskType"),
            "taskUUID": self.text("taskUUID"),
            "status": "processing",
            "progress": progress,
        })
    }
}
