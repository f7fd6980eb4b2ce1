//! Work outside of turns: ask a provider, ask it again, fetch what it made, remove what nobody
//! wants.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::{Job, store::RetryPolicy};

use crate::{
    DEFAULT_WORKSPACE, GenerationChanged, Made, TaskError,
    providers::{Embedded, OutputKind},
};

/// Has a provider begin with a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submit {
    /// The provider.
    pub provider: String,
    /// With what.
    pub model: String,
    /// The kind of output.
    pub kind: OutputKind,
    /// From what.
    pub input: Map<String, Value>,
    /// The generation that it is for.
    pub generation: String,
    /// The place in the request.
    pub index: u32,
    /// The id that the provider gets: chosen and durable before it is asked.
    pub task: String,
    /// The ids of earlier rounds: an output that was made for one of them is not made again.
    pub earlier: Vec<String>,
    /// Where the provider may tell of it, without the token of the address.
    pub webhook: Option<String>,
}

/// How a provider has taken a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Taken {
    /// It is done.
    Made(Made),
    /// The provider accepted it, and it is in progress.
    Accepted,
    /// It was not asked: a task of an earlier round is done.
    MadeEarlier {
        /// Which task.
        task: String,
        /// The output.
        made: Made,
    },
    /// It was not asked: nobody waits for the task any more.
    Withdrawn,
    /// It has too many requests and did not take the task now.
    #[serde(rename_all = "camelCase")]
    Later {
        /// How long it wants to be left alone, in milliseconds.
        after_ms: u64,
        /// Whether an earlier attempt may have handed the task over.
        may_be_known: bool,
        /// Whether it was not asked, because it told another task to wait.
        is_held: bool,
    },
}

impl Job for Submit {
    const NAME: &'static str = "generation-submit";
    const TIMEOUT: Duration = Duration::from_mins(6);
    type Output = Taken;
}

/// The same for what is made on this machine. Jobs of a kind wait in one line: behind those that
/// wait for a place at a provider elsewhere, these would wait as well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubmitHere(pub Submit);

impl Job for SubmitHere {
    const NAME: &'static str = "generation-submit-here";
    const TIMEOUT: Duration = Submit::TIMEOUT;
    type Output = Taken;
}

/// Whether this provider makes things on this machine.
pub(crate) fn is_here(provider: &str) -> bool {
    provider == Embedded::NAME
}

/// Asks a provider how far tasks are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Poll {
    /// The provider.
    pub provider: String,
    /// Which tasks.
    pub tasks: Vec<String>,
}

/// How far a task is at its provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Which task.
    pub task: String,
    /// How far.
    pub state: AtProvider,
}

/// The state of a task at its provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AtProvider {
    /// It is done.
    Made(Made),
    /// It runs; the progress in per cent, if it is known.
    Working(Option<u8>),
    /// It came to nothing.
    Failed(TaskError),
    /// Nothing is known of it.
    Unknown,
    /// It has too many requests: it wants to be left alone for so many milliseconds.
    Busy(u64),
}

impl Job for Poll {
    const NAME: &'static str = "generation-poll";
    // The next alarm asks again.
    const RETRY: RetryPolicy = RetryPolicy { attempts_max: 1, ..RetryPolicy::DEFAULT };
    type Output = Vec<Progress>;
}

/// Streams what a provider made into the bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetch {
    /// The provider.
    pub provider: String,
    /// The place in the request.
    pub index: u32,
    /// The artifact that it becomes.
    pub artifact: String,
    /// The task that it was made for: of an earlier round, if a success came late.
    pub task: String,
    /// The generation that it is for.
    pub generation: String,
    /// The workspace whose library gets it.
    pub workspace: String,
    /// The output.
    pub made: Made,
}

/// The blob that was stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetched {
    /// Its size in bytes.
    pub size: u64,
    /// Its media type, as its bytes have it.
    pub content_type: String,
    /// The extension of its file.
    pub extension: String,
    /// Pixels from left to right, if the file says so.
    pub width: Option<u32>,
    /// Pixels from top to bottom.
    pub height: Option<u32>,
}

impl Job for Fetch {
    const NAME: &'static str = "generation-fetch";
    // Longer than a download may take, and the wait for one of its places.
    const TIMEOUT: Duration = Duration::from_mins(30);
    type Output = Fetched;
}

/// The same for what is made on this machine, which is drawn and not downloaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchHere(pub Fetch);

impl Job for FetchHere {
    const NAME: &'static str = "generation-fetch-here";
    const TIMEOUT: Duration = Fetch::TIMEOUT;
    /// Nothing if no place was free for its workspace.
    type Output = Option<Fetched>;
}

/// Has the library record how a generation stands, and says why it does not: for words that the
/// library has not confirmed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The workspace of the library.
    pub workspace: String,
    /// Which generation.
    pub generation: String,
    /// How it stands; nothing if it was deleted.
    pub changed: Option<Box<GenerationChanged>>,
}

impl Job for Record {
    const NAME: &'static str = "generation-record";
    // The next alarm tries again.
    const RETRY: RetryPolicy = RetryPolicy { attempts_max: 1, ..RetryPolicy::DEFAULT };
    type Output = ();
}

/// Removes blobs that nobody refers to any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Discard {
    /// The workspace of the artifacts.
    pub workspace: String,
    /// The artifacts that they were of.
    pub artifacts: Vec<String>,
}

/// How long after its last attempt a job that could not remove blobs is asked for again.
pub(crate) const DISCARD_AGAIN: Duration = Duration::from_hours(1);

impl Job for Discard {
    const NAME: &'static str = "generation-discard";
    type Output = ();
}

/// Adds the cost of an output to the spend of its workspace, which is an organization.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountCost {
    /// The workspace.
    pub workspace: String,
    /// The task that was paid for: it counts once.
    pub task: String,
    /// Millionths of a US dollar.
    pub micros: u64,
}

impl CountCost {
    /// The cost of an output, if it counts for an organization.
    pub(crate) fn of(workspace: &str, task: &str, made: &Made) -> Option<Self> {
        let micros = (made.cost? * 1e6).round();
        // Providers may report anything; a cast of a float saturates.
        let is_counted = 1.0 <= micros && workspace != DEFAULT_WORKSPACE;
        let (workspace, task, micros) = (workspace.to_owned(), task.to_owned(), micros as u64);
        is_counted.then_some(Self { workspace, task, micros })
    }
}

impl Job for CountCost {
    const NAME: &'static str = "generation-count-cost";
    // About three days: an expense is not given up because the store is away for a while.
    const RETRY: RetryPolicy = RetryPolicy { attempts_max: 1_000, ..RetryPolicy::DEFAULT };
    type Output = ();
}
