//! An explainer behind the chat API that OpenAI made common. Workers AI, gateways and local servers
//! speak it too.

#[doc(hidden)]
pub mod fuzz;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast_egress::{Answer, Poster, Service, ServiceError, ServiceOptions};

use super::{
    explainer::{ExplainError, Explainer},
    explanation::Explanation,
    parse, prompt,
    summary::DriftSummary,
};

/// An explanation takes a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Requests to the model that are in flight at a time.
const REQUESTS_MAX: usize = 4;

/// The model to ask, and its limits.
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
    service: Service,
    /// The parameters that the model accepts, as far as they are known.
    manner: Mutex<Manner>,
}

impl Chat {
    /// A client.
    pub fn new(options: ChatOptions) -> Result<Self, ExplainError> {
        let ChatOptions { base_url, key, model, timeout, .. } = &options;
        let service = Service::new(ServiceOptions {
            url: &format!("{}/chat/completions", base_url.trim_end_matches('/')),
            key: key.as_deref(),
            timeout: *timeout,
            concurrent: REQUESTS_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
        });
        let is_model = !model.is_empty() && model.bytes().all(|it| it.is_ascii_graphic());
        let Some(service) = service.filter(|_| is_model) else {
            let message = "the chat API needs an address (http or https), a model, and a key \
                           without spaces if there is one; check the options";
            return Err(ExplainError::Refused { message: message.into() });
        };
        let manner = Mutex::new(Manner::FULL);
        Ok(Self { shared: Arc::new(Shared { options, service, manner }) })
    }
}

impl Shared {
    /// Asks, and asks again without a parameter that the model refuses.
    fn ask(&self, poster: &Poster, user: &str) -> Result<Explanation, ExplainError> {
        loop {
            let manner = *self.manner.lock();
            let answer = self.send(poster, user, manner)?;
            let without = match answer.status {
                200 => return explanation(&answer.body),
                408 | 409 | 425 | 429 | 500.. => return Err(unavailable(&answer.refusal())),
                400 | 422 => manner.without(&answer),
                _ => None,
            };
            let Some(without) = without else {
                let message = format!(
                    "the chat API refuses with {}; check address, key and model",
                    answer.refusal()
                );
                return Err(ExplainError::Refused { message });
            };
            // The next explanation is asked for in this way at once.
            *self.manner.lock() = without;
        }
    }

    fn send(&self, poster: &Poster, user: &str, manner: Manner) -> Result<Answer, ExplainError> {
        let mut body = json!({
            "model": self.options.model,
            "messages": [
                { "role": "system", "content": prompt::SYSTEM },
                { "role": "user", "content": user },
            ],
            "stream": false,
        });
        if let Some(name) = manner.limit.name() {
            body[name] = self.options.tokens_max.into();
        }
        if manner.has_temperature {
            body["temperature"] = 0.into();
        }
        let sent = poster.post("application/json", body.to_string().as_bytes());
        sent.map_err(|error| match error {
            ServiceError::TooLarge { .. } => nonsense("it does not end"),
            ServiceError::Timeout { reason } | ServiceError::Unavailable { reason } => {
                unavailable(&reason)
            }
        })
    }
}

/// Which parameters a model is asked with: not every model takes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    has_temperature: bool,
    limit: Limit,
}

/// The parameter that bounds the length of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// `max_tokens`, the name of most services.
    Tokens,
    /// `max_completion_tokens`, the name of models that reason before they answer.
    Completion,
    /// The model decides.
    None,
}

impl Limit {
    fn name(self) -> Option<&'static str> {
        match self {
            Limit::Tokens => Some("max_tokens"),
            Limit::Completion => Some("max_completion_tokens"),
            Limit::None => None,
        }
    }
}

impl Manner {
    const FULL: Self = Self { has_temperature: true, limit: Limit::Tokens };

    /// How to ask after a refusal that names a parameter; `None` if it names none that was sent.
    fn without(self, answer: &Answer) -> Option<Self> {
        let body = answer.json();
        let named = body.pointer("/error/param").and_then(Value::as_str).map(str::to_owned);
        let text = named.or_else(|| answer.error_message()).unwrap_or_default();
        if self.has_temperature && text.contains("temperature") {
            return Some(Self { has_temperature: false, ..self });
        }
        self.limit.name().filter(|it| text.contains(it))?;
        let limit = if self.limit == Limit::Tokens { Limit::Completion } else { Limit::None };
        Some(Self { limit, ..self })
    }
}

fn unavailable(reason: &str) -> ExplainError {
    ExplainError::Unavailable { message: format!("the chat API is not to be had: {reason}") }
}

fn nonsense(reason: &str) -> ExplainError {
    let reason = cleaned(reason);
    ExplainError::Answer { message: format!("the model gave no explanation: {reason}") }
}

/// Text of a stranger, for a message. The errors of the JSON parser quote what they found.
fn cleaned(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(200).collect()
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
            move |poster: &Poster| shared.ask(poster, &user)
        };
        let done = self.shared.service.run(work).await;
        done.unwrap_or_else(|| Err(unavailable("the request ended early")))
    }

    fn name(&self) -> String {
        let model = &self.shared.options.model;
        format!("{} (chat API)", model.rsplit('/').next().unwrap_or(model))
    }
}

#[cfg(test)]
mod tests;
