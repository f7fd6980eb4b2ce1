//! Verbs about runs of workflows.

use clap::{Args, Subcommand, ValueEnum};
use steadfast_core::workflow::Phase;

use super::{AskArgs, ListArgs, examples};

/// Verbs about runs.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RunsVerb {
    /// Lists the workflows, or the runs of one, newest first
    #[command(after_help = examples::RUNS_LIST)]
    List(RunListArgs),
    /// Shows the steps of a run over time, and why it does not go on
    #[command(after_help = examples::RUNS_SHOW)]
    Show {
        #[command(flatten)]
        run: RunArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Prints the history of a run, and what is added until it ends; exit code 1 if it ends badly
    #[command(after_help = examples::RUNS_TAIL)]
    Tail {
        #[command(flatten)]
        run: RunArgs,
        /// Begins behind the entry with this number
        #[arg(long, env = "STEADFAST_AFTER", value_name = "NUMBER", default_value_t = 0)]
        after: u32,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Starts a run, or finds the one with this id; exit code 1 if it is known to have failed
    #[command(after_help = examples::RUNS_START)]
    Start(StartArgs),
    /// Has a run stand still
    #[command(after_help = examples::RUNS_PAUSE)]
    Pause {
        #[command(flatten)]
        run: RunArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lets a run go on that stands still; what it sleeps for is as far away as it was
    #[command(after_help = examples::RUNS_RESUME)]
    Resume {
        #[command(flatten)]
        run: RunArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Ends a run
    #[command(after_help = examples::RUNS_TERMINATE)]
    Terminate {
        #[command(flatten)]
        run: RunArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Erases a run that has ended, for good; its id is free again
    #[command(after_help = examples::RUNS_DELETE)]
    Delete {
        #[command(flatten)]
        run: RunArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lets a run that has ended or stands still begin anew
    #[command(after_help = examples::RUNS_RESTART)]
    Restart {
        #[command(flatten)]
        run: RunArgs,
        /// Keeps what was recorded before this step
        #[arg(long, env = "STEADFAST_FROM", value_name = "STEP")]
        from: Option<String>,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Tells a run of an event; it is kept until the run waits for it
    #[command(after_help = examples::RUNS_SEND_EVENT)]
    SendEvent(EventArgs),
}

/// One run.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// The workflow
    pub(crate) workflow: String,
    /// The id of the run
    pub(crate) id: String,
}

/// Which runs are listed.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunListArgs {
    /// The workflow whose runs are listed
    pub(crate) workflow: Option<String>,
    /// Only those that are so far
    #[arg(long, env = "STEADFAST_STATUS", requires = "workflow")]
    pub(crate) status: Option<PhaseArg>,
    /// Only those whose ids begin with this
    #[arg(long, env = "STEADFAST_PREFIX", value_name = "TEXT", requires = "workflow")]
    pub(crate) prefix: Option<String>,
    /// Only those that were started then or later, as in 2026-11-15T12:30:00Z
    #[arg(long, env = "STEADFAST_SINCE", value_name = "TIME", requires = "workflow")]
    pub(crate) since: Option<String>,
    /// Only those that were started before
    #[arg(long, env = "STEADFAST_UNTIL", value_name = "TIME", requires = "workflow")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// A start.
#[derive(Clone, Debug, Args)]
pub(crate) struct StartArgs {
    /// The workflow
    pub(crate) workflow: String,
    /// The id of the run, made up unless it is given; the same id is the same run
    #[arg(long, env = "STEADFAST_ID", value_name = "ID")]
    pub(crate) id: Option<String>,
    /// What the workflow takes, as JSON, or @FILE
    #[arg(long, env = "STEADFAST_INPUT", value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Waits so long for its end
    #[arg(long, env = "STEADFAST_WAIT", value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(0..=60))]
    pub(crate) wait: Option<u32>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// An event.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// The name of the event
    #[arg(value_name = "TYPE")]
    pub(crate) type_: String,
    /// What it says, as JSON
    #[arg(long, env = "STEADFAST_PAYLOAD", value_name = "JSON")]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseArg(pub(crate) Phase);

impl ValueEnum for PhaseArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [PhaseArg; 7] = {
            let [a, b, c, d, e, f, g] = Phase::ALL;
            [
                PhaseArg(a),
                PhaseArg(b),
                PhaseArg(c),
                PhaseArg(d),
                PhaseArg(e),
                PhaseArg(f),
                PhaseArg(g),
            ]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()))
    }
}
