//! The classifier of Workers AI, over its REST interface.

#[doc(hidden)]
pub mod fuzz;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;
use steadfast_egress::{Answer, Poster, Service, ServiceError, ServiceOptions};
use steadfast_images::{ImageError, ImageFormat, ImageLimits, encode_png, inspect, thumbnail};

use super::{Classifier, ClassifyError, LABELS_MAX, Label};

/// Requests to the service that are in flight at a time.
const REQUESTS_MAX: usize = 8;

/// Five labels take a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 200;

/// The longest edge of the copy that is sent of an image that the service may not know.
const SENT_EDGE: u32 = 1_024;

/// The account and the model to ask.
#[derive(Clone)]
pub struct WorkersAiOptions {
    /// The account, as in its addresses.
    pub account: String,
    /// A token that may run models.
    pub token: String,
    /// The model.
    pub model: String,
    /// Where the interface is, up to its version.
    pub base_url: String,
    /// How long one answer may take, from the first byte sent to the last one read.
    pub timeout: Duration,
}

impl WorkersAiOptions {
    /// For an account, with the model and the address that the service documents.
    pub fn new(account: &str, token: &str) -> Self {
        Self {
            account: account.into(),
            token: token.into(),
            model: "@cf/microsoft/resnet-50".into(),
            base_url: "https://api.cloudflare.com/client/v4".into(),
            timeout: Duration::from_secs(30),
        }
    }
}

impl std::fmt::Debug for WorkersAiOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { account, model, base_url, timeout, token: _ } = self;
        f.debug_struct("WorkersAiOptions")
            .field("account", account)
            .field("model", model)
            .field("base_url", base_url)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

/// Asks Workers AI. Clones share its limit of concurrent requests.
#[derive(Clone)]
pub struct WorkersAi {
    shared: Arc<Shared>,
}

struct Shared {
    model: String,
    limits: ImageLimits,
    service: Service,
}

impl WorkersAi {
    /// A client.
    pub fn new(options: WorkersAiOptions, limits: ImageLimits) -> Result<Self, ClassifyError> {
        let WorkersAiOptions { account, model, base_url, timeout, token } = options;
        let is_plain = |it: &str| {
            !it.is_empty()
                && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.@/".contains(&it))
        };
        let is_path = is_plain(&account) && !account.contains('/') && is_plain(&model);
        let base_url = base_url.trim_end_matches('/');
        let service = Service::new(ServiceOptions {
            url: &format!("{base_url}/accounts/{account}/ai/run/{model}"),
            key: Some(&token),
            timeout,
            concurrent: REQUESTS_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
        });
        let Some(service) = service.filter(|_| is_path) else {
            return Err(ClassifyError::NotReady {
                message: "Workers AI needs an account, a token, a model and an address".into(),
            });
        };
        Ok(Self { shared: Arc::new(Shared { model, limits, service }) })
    }
}

impl Shared {
    fn ask(&self, poster: &Poster, image: Vec<u8>) -> Result<Vec<Label>, ClassifyError> {
        let image = self.sendable(image)?;
        let answer = poster.post("application/octet-stream", &image);
        let answer = answer.map_err(|error| match error {
            ServiceError::TooLarge { .. } => nonsense("it does not end"),
            ServiceError::Timeout { reason } | ServiceError::Unavailable { reason } => {
                unavailable(&reason)
            }
        })?;
        match answer.status {
            200 => labels(&answer),
            408 | 429 | 500.. => Err(unavailable(&answer.refusal())),
            401 | 403 | 404 => Err(ClassifyError::NotReady {
                message: format!(
                    "Workers AI refuses with {}; check account, token and model",
                    answer.refusal()
                ),
            }),
            _ => Err(nonsense(&answer.refusal())),
        }
    }

    /// The bytes that are sent. A model that decodes by itself knows JPEG and PNG for certain; it
    /// need not know what moves or lies on its side.
    fn sendable(&self, image: Vec<u8>) -> Result<Vec<u8>, ImageError> {
        let inspected = inspect(&image, &self.limits)?;
        let is_known = match inspected.format {
            ImageFormat::Jpeg | ImageFormat::Png => true,
            ImageFormat::Webp | ImageFormat::Gif => false,
        };
        match is_known && !inspected.is_turned {
            true => Ok(image),
            false => thumbnail(&image, &self.limits, SENT_EDGE),
        }
    }
}

/// A PNG that every model takes.
fn small_picture() -> Result<Vec<u8>, ClassifyError> {
    let png = encode_png(64, 64, &[90, 120, 150].repeat(64 * 64));
    png.map_err(|error| unavailable(&error.to_string()))
}

fn unavailable(reason: &str) -> ClassifyError {
    ClassifyError::Unavailable { message: format!("Workers AI is not to be had: {reason}") }
}

fn nonsense(reason: &str) -> ClassifyError {
    let reason = cleaned(reason);
    ClassifyError::Answer { message: format!("Workers AI answered with no labels: {reason}") }
}

/// The envelope of an answer.
#[derive(Deserialize)]
struct Envelope {
    success: Option<bool>,
    result: Option<Vec<Label>>,
}

/// Text of a stranger, for a message. The errors of the JSON parser quote what they found.
fn cleaned(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(200).collect()
}

fn labels(answer: &Answer) -> Result<Vec<Label>, ClassifyError> {
    let envelope: Envelope =
        serde_json::from_slice(&answer.body).map_err(|error| nonsense(&error.to_string()))?;
    if envelope.success == Some(false) {
        return Err(nonsense(&format!("it says it failed, {}", answer.refusal())));
    }
    let mut labels = envelope.result.unwrap_or_default();
    if labels.is_empty() {
        return Err(nonsense("the list is empty"));
    }
    for label in &mut labels {
        label.label = label.label.trim().to_uppercase();
    }
    let is_label = |it: &Label| {
        (0.0..=1.0).contains(&it.score)
            && (1..=LABEL_BYTES_MAX).contains(&it.label.len())
            && !it.label.chars().any(char::is_control)
    };
    if let Some(bad) = labels.iter().find(|it| !is_label(it)) {
        return Err(nonsense(&format!("a label has the score {}, or is no text", bad.score)));
    }
    // The order is not promised.
    labels.sort_by(|a, b| b.score.total_cmp(&a.score));
    labels.truncate(LABELS_MAX);
    Ok(labels)
}

#[async_trait]
impl Classifier for WorkersAi {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let shared = &self.shared;
        let work = || {
            let (shared, image) = (Arc::clone(shared), image.to_vec());
            move |poster: &Poster| shared.ask(poster, image)
        };
        let done = shared.service.run(work).await;
        done.unwrap_or_else(|| Err(unavailable("the request ended early")))
    }

    /// Asks with a small picture of one colour.
    async fn ready(&self) -> Result<(), ClassifyError> {
        match self.classify(&small_picture()?).await {
            Err(error @ (ClassifyError::NotReady { .. } | ClassifyError::Unavailable { .. })) => {
                Err(error)
            }
            // It is there, whatever it thinks of the picture.
            Ok(_) | Err(ClassifyError::Image(_) | ClassifyError::Answer { .. }) => Ok(()),
        }
    }

    fn name(&self) -> String {
        let model = &self.shared.model;
        format!("{} (Workers AI)", model.rsplit('/').next().unwrap_or(model))
    }
}

#[cfg(test)]
mod tests;
