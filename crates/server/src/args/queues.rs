//! Verbs about queues.

use clap::{Args, Subcommand, ValueEnum};

use super::{AskArgs, ListArgs, examples};

/// Verbs about queues.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QueuesVerb {
    /// Lists the queues, how full they are and what goes through them
    #[command(after_help = examples::QUEUES_LIST)]
    List(AskArgs),
    /// Shows one queue with its settings
    #[command(after_help = examples::QUEUES_SHOW)]
    Show {
        #[command(flatten)]
        queue: QueueArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Looks at messages without consuming them
    #[command(after_help = examples::QUEUES_PEEK)]
    Peek {
        #[command(flatten)]
        queue: QueueArgs,
        /// Only those that are so far
        #[arg(long, env = "STEADFAST_STATE", default_value = "pending")]
        state: PeekArg,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Sends a message; the queue is made if it is not there
    #[command(after_help = examples::QUEUES_SEND)]
    Send(QueueSendArgs),
    /// Delivers nothing more from a queue; what is under way ends
    #[command(after_help = examples::QUEUES_PAUSE)]
    Pause {
        #[command(flatten)]
        queue: QueueArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lets a queue go on that is paused
    #[command(after_help = examples::QUEUES_RESUME)]
    Resume {
        #[command(flatten)]
        queue: QueueArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Takes messages out of a queue that nobody handles
    #[command(after_help = examples::QUEUES_PURGE)]
    Purge(PurgeArgs),
    /// Lists the dead letters of a queue, wherever they are, and why they were given up
    #[command(after_help = examples::QUEUES_DLQ)]
    Dlq {
        #[command(flatten)]
        queue: QueueArgs,
        /// Rows at most
        #[arg(long, env = "STEADFAST_LIMIT", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Gives messages that lie in a queue of dead letters another chance
    #[command(after_help = examples::QUEUES_REDRIVE)]
    Redrive(RedriveArgs),
}

/// One queue.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueArgs {
    /// The queue
    #[arg(value_name = "QUEUE")]
    pub(crate) name: String,
}

/// A message.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueSendArgs {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// What it says, as JSON, or @FILE
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON")]
    pub(crate) body: String,
    /// Is not delivered before so many milliseconds
    #[arg(long, env = "STEADFAST_DELAY_MS", value_name = "MS")]
    pub(crate) delay_ms: Option<u64>,
    /// Makes a repetition of this request harmless
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// What is taken out.
#[derive(Clone, Debug, Args)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Only those that wait, or only those that are dead
    #[arg(long, env = "STEADFAST_STATE")]
    pub(crate) state: Option<PurgeArg>,
    /// Only this message; may be given several times
    #[arg(long = "id", env = "STEADFAST_ID", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// What gets another chance.
#[derive(Clone, Debug, Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Moves them there, instead of to the queue that each was sent to
    #[arg(long, env = "STEADFAST_TO", value_name = "QUEUE")]
    pub(crate) to: Option<String>,
    /// Lets so many become due each second
    #[arg(long, env = "STEADFAST_RATE", value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Only those whose last error contains this
    #[arg(long, env = "STEADFAST_ERROR_CONTAINS", value_name = "TEXT")]
    pub(crate) error_contains: Option<String>,
    /// Only this message; may be given several times
    #[arg(long = "id", env = "STEADFAST_ID", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Moves nothing, and says what would be
    #[arg(long, env = "STEADFAST_DRY_RUN",
        value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// How far a message is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PeekArg {
    // Described, each would take a line of the help.
    Pending,
    InFlight,
    Dead,
}

impl PeekArg {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PeekArg::Pending => "pending",
            PeekArg::InFlight => "in-flight",
            PeekArg::Dead => "dead",
        }
    }
}

/// What can be taken out.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PurgeArg {
    Pending,
    Dead,
}

impl PurgeArg {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PurgeArg::Pending => "pending",
            PurgeArg::Dead => "dead",
        }
    }
}
