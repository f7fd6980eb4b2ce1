//! Sending webhooks.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use super::Shared;

/// How often one is sent until somebody takes it.
const TRIES: usize = 3;

impl Shared {
    /// Sends the webhook of a task, and again until it is taken.
    pub(super) fn send_webhook(&self, id: &str) {
        let Some(record) = self.tasks().get(id).cloned() else { return };
        let url = record.text("webhookURL").to_owned();
        if url.is_empty() {
            return;
        }
        let body = match record.error() {
            Some(error) => json!({ "errors": [error] }),
            None => json!({ "data": [record.result(&format!("http://{}", self.address))] }),
        };
        if record.behaviour.has("partial") && record.webhooks.is_empty() {
            self.post(id, &url, &json!({ "data": [record.progress(50)] }));
        }
        for _ in 0..TRIES {
            if (200..300).contains(&self.post(id, &url, &body)) {
                return;
            }
        }
    }

    fn post(&self, id: &str, url: &str, body: &Value) -> u16 {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(5)));
        let agent: Agent = config.build().into();
        let request = agent.post(url).header("content-type", "application/json");
        let status = request.send(body.to_string()).map_or(0, |it| it.status().as_u16());
        if let Some(record) = self.tasks().get_mut(id) {
            record.webhooks.push(status);
        }
        status
    }
}
