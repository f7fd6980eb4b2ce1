//! The trait that every provider of generations implements, and what goes in and out.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{embedded::Drawing, error::GenerateError, stream::OutputStream};

/// The kind of output of a task; it decides the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// One picture: seconds.
    Image,
    /// Something that moves: minutes.
    Video,
}

steadfast_core::store::texts! {
    OutputKind { Image = "image", Video = "video" }
}

impl OutputKind {
    /// Its name, as in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How a provider delivers what it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// With the answer to the submission.
    Sync,
    /// Later, by a poll or a webhook.
    Async,
}

/// A model that a provider is known to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The id in requests: `embedded:art@1`.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The kind of output.
    pub kind: OutputKind,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Which model.
    pub model: String,
    /// The rest, in Runware's names: `positivePrompt`, `width`, `height`, `seed`, …
    pub input: Map<String, Value>,
}

/// A request that passed its check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The kind of output.
    pub kind: OutputKind,
    /// The input with what was left out filled in: this is kept and sent.
    pub input: Map<String, Value>,
}

/// One output to make. It has one result, never more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// A UUID, chosen and stored before anybody is asked.
    pub id: String,
    /// Which model.
    pub model: String,
    /// The kind of output, from [`Checked`].
    pub kind: OutputKind,
    /// The input, from [`Checked`].
    pub input: Map<String, Value>,
    /// Where the provider may say that it is done.
    pub webhook_url: Option<String>,
}

/// The response of a provider to a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// It is done already.
    Finished(Vec<Output>),
    /// It will be done; a webhook or [`Provider::poll`] says when.
    Accepted,
}

/// An output of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The provider's own id of it: the same in a webhook, in its duplicate and in a poll.
    pub id: Option<String>,
    /// Where its bytes are.
    pub source: OutputSource,
    /// The seed it was made with.
    pub seed: Option<u64>,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// The content type by its name. Only its first bytes are reliable.
    pub content_type: Option<String>,
    /// The response of the provider, as it came.
    pub raw: Value,
}

/// Where the bytes of an output are. It can be stored, and opened again after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OutputSource {
    /// At an address that a provider named.
    Url {
        /// The address.
        url: String,
    },
    /// Nowhere: they are drawn when they are asked for, always the same.
    Inline {
        /// The drawing.
        drawing: Drawing,
    },
}

/// The report about a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Which task. A webhook about an error need not name it.
    pub task: Option<String>,
    /// Its state.
    pub state: TaskState,
}

impl Report {
    /// Whether it is about this task. A webhook's token speaks for one task only: what its body
    /// says about others is nobody's word.
    pub fn concerns(&self, task: &str) -> bool {
        self.task.as_deref().is_none_or(|it| it.eq_ignore_ascii_case(task))
    }
}

/// Where a task is.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskState {
    /// Done; there is one output at least.
    Finished(Vec<Output>),
    /// In progress, or the provider does not say otherwise.
    InProgress {
        /// How far, from 0 to 100.
        progress: Option<u8>,
        /// The outputs so far.
        outputs: Vec<Output>,
    },
    /// It came to nothing, and this is why.
    Failed(GenerateError),
    /// The provider has never taken it, or forgot it: submitting it does not make it twice.
    Unknown,
}

/// Makes images and clips.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Its name, in tables and for people: `runware`.
    fn name(&self) -> &'static str;

    /// Models to offer. It may know more.
    fn models(&self) -> Vec<Model>;

    /// Looks at a request before anything is stored or paid.
    fn check(&self, request: &Request) -> Result<Checked, GenerateError>;

    /// How it delivers what tasks of this kind make.
    fn delivery(&self, _: OutputKind) -> Delivery {
        Delivery::Async
    }

    /// Whether [`TaskState::Unknown`] proves that a task with this delivery was never taken. If it
    /// does not, a task whose answer was lost must not be submitted again.
    fn unknown_is_proof(&self, _: Delivery) -> bool {
        true
    }

    /// Submits a task.
    ///
    /// An error that is retryable need not mean that the provider does not have it: ask
    /// [`poll`](Self::poll) before submitting it again.
    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError>;

    /// Asks what became of tasks: one report for each, in their order.
    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError>;

    /// Opens an output. More than so many bytes end in an error, and so does what is no media.
    async fn open(
        &self,
        source: &OutputSource,
        bytes_max: u64,
    ) -> Result<OutputStream, GenerateError>;

    /// Reads the body of a webhook. Whose it is and whether it may speak is for the caller to know.
    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_the_one_in_json() {
        let kinds = [OutputKind::Image, OutputKind::Video];
        assert_eq!(kinds.map(OutputKind::as_str), ["image", "video"]);
    }
}
