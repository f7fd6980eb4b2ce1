//! Verbs about processes.

use clap::{Args, Subcommand, ValueEnum};

use super::{AskArgs, ListArgs, examples};

/// Verbs about processes.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProcessesVerb {
    /// Lists the processes, or the instances of one
    #[command(after_help = examples::PROCESSES_LIST)]
    List {
        /// The process whose instances are listed
        name: Option<String>,
        /// Only those instances
        #[arg(long, env = "STEADFAST_STATUS", requires = "name")]
        status: Option<StatusArg>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Shows the state and the messages of an instance
    #[command(after_help = examples::PROCESSES_SHOW)]
    Show {
        /// The process
        name: String,
        /// The instance
        id: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Gives an instance an input, and prints what was decided on it
    #[command(after_help = examples::PROCESSES_SEND)]
    Send(SendArgs),
}

/// An input.
#[derive(Clone, Debug, Args)]
pub(crate) struct SendArgs {
    /// The process
    pub(crate) name: String,
    /// The instance; it begins with its first input
    pub(crate) id: String,
    /// The type of the input
    #[arg(long = "type", env = "STEADFAST_TYPE", value_name = "TYPE")]
    pub(crate) type_: String,
    /// What the input says, as JSON
    // `--data` is the folder, here as for every verb.
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Makes a repetition of this request harmless
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Whether an instance has ended.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StatusArg {
    // Described, each would take a line of the help.
    Open,
    Completed,
}

impl StatusArg {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            StatusArg::Open => "open",
            StatusArg::Completed => "completed",
        }
    }
}
