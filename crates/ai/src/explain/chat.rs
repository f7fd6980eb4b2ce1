//! An explainer behind the chat API that OpenAI made common. Workers AI, gateways and local servers
//! speak it too.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Value, json};
use ureq::Agent;

use super::{
    explainer::{ExplainError, Explainer},
    explanation::Explanation,
    parse, prompt,
    summary::DriftSummary,
};
use crate::{agent::agent, classify::Pool};

/// An explanation takes a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Whom to ask, and how.
#[derive(Clone)]
pub struct ChatOptions {
    /// Where the interface is, up to its version: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key; local servers need none.
    pub key: Option<String>,
    /// The model.
    pub model: String,
    /// How long one answer may take, from the first byte sent to the last one read.
    pub timeout: Duration,
    /// How long an answer may be, in the model's tokens.
    pub tokens_max: u32,
}

impl ChatOptions {
    /// For a model, with an answer of 1,024 tokens within a minute.
    pub fn new(base_url: &str, key: Option<&str>, model: &str) -> Self {
        Self {
            base_url: base_url.into(),
            key: key.map(Into::into),
            model: model.into(),
            timeout: Duration::from_secs(60),
            tokens_max: 1_024,
        }
    }
}

impl std::fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { base_url, model, timeout, tokens_max, key: _ } = self;
        f.debug_struct("ChatOptions")
            .field("base_url", base_url)
            .field("model", model)
            .field("timeout", timeout)
            .field("tokens_max", tokens_max)
            .finish_non_exhaustive()
    }
}

/// Asks a model. Clones are the same one.
#[derive(Clone)]
pub struct Chat {
    shared: Arc<Shared>,
}

struct Shared {
    options: ChatOptions,
    url: String,
    agent: Agent,
    pool: Pool,
}

impl Chat {
    /// A client. As many requests are under way at a time as the pool has threads; give it one of
    /// its own, as they mostly wait.
    pub fn new(options: ChatOptions, pool: Pool) -> Result<Self, ExplainError> {
        let ChatOptions { base_url, key, model, timeout, .. } = &options;
        let is_plain = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic());
        let is_address = base_url.starts_with("https://") || base_url.starts_with("http://");
        let is_open = base_url.contains(['@', '?', '#']);
        let is_key = key.as_deref().is_none_or(is_plain);
        if !is_address || is_open || !is_plain(base_url) || !is_plain(model) || !is_key {
            let message = "the chat API needs an address (http or https), a model, and a key \
                           without spaces if there is one; check the options";
            return Err(ExplainError::Refused { message: message.into() });
        }
        let url = format!("{}/chat/completions", base_url.trim_end_matches('/'));
        let agent = agent(base_url, *timeout);
        Ok(Self { shared: Arc::new(Shared { options, url, agent, pool }) })
    }
}

impl Shared {
    fn ask(&self, user: &str) -> Result<Explanation, ExplainError> {
        let body = json!({
            "model": self.options.model,
            "messages": [
                { "role": "system", "content": prompt::SYSTEM },
                { "role": "user", "content": user },
            ],
            "max_tokens": self.options.tokens_max,
            "temperature": 0,
            "stream": false,
        });
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.options.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let sent = request.send(body.to_string().as_bytes());
        let mut response = sent.map_err(|error| unavailable(&error.to_string()))?;
        let status = response.status().as_u16();
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let answer = match read {
            Err(ureq::Error::BodyExceedsLimit(_)) => return Err(nonsense("it does not end")),
            read => read.map_err(|error| unavailable(&error.to_string()))?,
        };
        match status {
            200 => explanation(&answer),
            408 | 409 | 425 | 429 | 500.. => {
                Err(unavailable(&format!("status {status}{}", reason(&answer))))
            }
            _ => Err(ExplainError::Refused {
                message: format!(
                    "the chat API refuses with status {status}{}; check address, key and model",
                    reason(&answer)
                ),
            }),
        }
    }
}

fn unavailable(reason: &str) -> ExplainError {
    ExplainError::Unavailable { message: format!("the chat API is not to be had: {reason}") }
}

fn nonsense(reason: &str) -> ExplainError {
    ExplainError::Answer { message: format!("the model gave no explanation: {reason}") }
}

/// What the service says to it, for people; short, as it comes from elsewhere.
fn reason(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let places = ["/error/message", "/errors/0/message", "/error", "/message"];
    let text = places.iter().find_map(|it| body.pointer(it).and_then(Value::as_str));
    let clean = |it: &str| it.chars().filter(|it| !it.is_control()).take(200).collect::<String>();
    text.map(|it| format!(" ({})", clean(it))).unwrap_or_default()
}

/// The explanation in an answer. Gateways wrap it in envelopes of their own.
fn explanation(body: &[u8]) -> Result<Explanation, ExplainError> {
    let body: Value = serde_json::from_slice(body).map_err(|error| nonsense(&error.to_string()))?;
    let places = [
        "/choices/0/message/content",
        "/result/choices/0/message/content",
        "/result/response",
        "/response",
    ];
    let content = places.iter().find_map(|it| body.pointer(it));
    let content = content.ok_or_else(|| nonsense("the answer has no message"))?;
    parse::explanation(content).map_err(|reason| nonsense(&reason))
}

#[async_trait]
impl Explainer for Chat {
    async fn explain(&self, summary: &DriftSummary) -> Result<Explanation, ExplainError> {
        let user = prompt::user(summary);
        let work = || {
            let (shared, user) = (Arc::clone(&self.shared), user.clone());
            move || shared.ask(&user)
        };
        let done = self.shared.pool.run(work).await;
        done.unwrap_or_else(|error| Err(unavailable(&error.to_string())))
    }

    fn name(&self) -> String {
        let model = &self.shared.options.model;
        format!("{} (chat API)", model.rsplit('/').next().unwrap_or(model))
    }
}

#[cfg(test)]
mod tests;
