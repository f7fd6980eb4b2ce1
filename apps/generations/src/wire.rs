//! Messages to a generation, and those that it sends to watchers.

use serde::{Deserialize, Serialize};

use crate::{Generation, Request, TaskView, providers::Delivery};

/// A request begins. The same one again changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    /// The request.
    pub request: Request,
    /// The library that it goes to.
    pub workspace: String,
    /// Where webhooks come in, if they can: the address of this server.
    pub webhooks: Option<String>,
    /// How long tasks may take, in milliseconds.
    pub timeout_ms: u64,
}

/// How far it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetState;

/// The job that submits a task has a place at the provider and is about to ask it. The time of the
/// provider starts now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The place in the request.
    pub index: u32,
    /// The id that the provider gets.
    pub task: String,
    /// How the output will be delivered.
    pub delivery: Delivery,
}

/// The reply of the manager to [`Begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begun {
    /// The provider was never asked for this task: submit it.
    First,
    /// The provider may have the task already: poll before you submit it.
    Again,
    /// The provider may have made the task already and cannot tell: poll, and never submit it.
    PollOnly,
    /// The provider takes no tasks now: submit it later.
    #[serde(rename_all = "camelCase")]
    Held {
        /// For how long, in milliseconds.
        after_ms: u64,
        /// Whether the provider may have the task already.
        may_be_known: bool,
    },
    /// The task is cancelled, deleted or overtaken: do not submit it.
    Unwanted,
}

/// A task that the provider turned away is submitted again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubmitAgain {
    /// The place in the request.
    pub index: u32,
    /// The id that the provider gets.
    pub task: String,
    /// The ids of earlier rounds.
    pub earlier: Vec<String>,
}

/// An output is drawn again for which its workspace had no place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchAgain {
    /// The place in the request.
    pub index: u32,
}

/// A provider tells of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Webhook {
    /// The task that the address is for.
    pub task: String,
    /// Proves that the address is ours.
    pub token: String,
    /// The body, as it came.
    pub body: String,
}

/// Nobody wants the rest any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cancel;

/// Tries failed tasks again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Retry;

/// Tries failed tasks again that are made and paid for. The others stay failed: the workspace has
/// spent what it may spend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RetryUnpaid;

/// It is deleted, with everything that came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delete;

/// The time for providers is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimeOut;

/// It is time to ask the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskAgain {
    /// How often it was asked.
    pub asked: u32,
}

/// It is time to ask for what was given up and may have been made after all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskLate {
    /// How often it was asked.
    pub asked: u32,
}

/// Gets the last change sent to the library. A caller that delivers it there sees it at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetWord;

/// The tags and deletions that the library has of a generation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LibraryChanged {
    /// Of which artifact; nothing for the generation itself.
    pub artifact: Option<String>,
    /// Its tags; nothing if it was deleted.
    pub tags: Option<Vec<String>>,
    /// The turn of the library: words come in any order, and the last one counts.
    pub turn: i64,
}

/// The library has heard that a generation is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LibraryHeard {
    /// The number of the word.
    pub version: i64,
}

/// The library has not confirmed the last change: it is time to send it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confirm {
    /// How often it was sent again.
    pub tried: u32,
}

/// Blobs could not be removed: it is time to try again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiscardAgain {
    /// The workspace of the artifacts.
    pub workspace: String,
    /// The artifacts that they were of.
    pub artifacts: Vec<String>,
}

/// Everything is in the library, and nobody asks here any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forget;

/// A message to everybody who watches a generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum GenerationMessage {
    /// The state or the progress of a task changed.
    TaskChanged {
        /// The task.
        task: TaskView,
    },
    /// It is over.
    GenerationFinished {
        /// How it ended.
        generation: Box<Generation>,
    },
    /// It was deleted.
    GenerationDeleted {
        /// Which one.
        id: String,
    },
}
