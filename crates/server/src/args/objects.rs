//! Verbs about objects.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AskArgs, ListArgs, examples};

/// Verbs about objects.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ObjectsVerb {
    /// Lists the classes: those served, and those of objects that exist
    #[command(after_help = examples::OBJECTS_CLASSES)]
    Classes(AskArgs),
    /// Lists the objects of a class by name
    #[command(after_help = examples::OBJECTS_LIST)]
    List {
        /// The class
        class: String,
        /// Only those whose names begin with this
        #[arg(long, env = "STEADFAST_PREFIX", value_name = "TEXT")]
        prefix: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Shows the size, tables, alarms, connections and last error of an object
    #[command(after_help = examples::OBJECTS_SHOW)]
    Show {
        #[command(flatten)]
        object: ObjectArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Calls an object and prints the reply
    #[command(after_help = examples::OBJECTS_CALL)]
    Call(CallArgs),
    /// Runs one statement that only reads, on an object as it is or was
    #[command(after_help = examples::OBJECTS_SQL)]
    Sql(SqlArgs),
    /// Lists the turns of an object, newest first, or shows what one of them changed
    #[command(after_help = examples::OBJECTS_TURNS)]
    Turns {
        #[command(flatten)]
        object: ObjectArgs,
        /// Shows the rows that this turn changed, before and after
        #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
        turn: Option<i64>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Writes an object as it is or was to a SQLite file
    #[command(after_help = examples::OBJECTS_EXPORT)]
    Export(ExportArgs),
    /// Deletes an object for good
    #[command(after_help = examples::OBJECTS_DELETE)]
    Delete {
        #[command(flatten)]
        object: ObjectArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// One object.
#[derive(Clone, Debug, Args)]
pub(crate) struct ObjectArgs {
    /// The class
    pub(crate) class: String,
    /// The name of the object
    pub(crate) name: String,
}

/// A call.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// A message that the class has made public
    pub(crate) message: String,
    /// What the message says, as JSON
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Makes a repetition of this request harmless
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// A question in SQL.
#[derive(Clone, Debug, Args)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// The statement
    pub(crate) sql: String,
    /// Its parameters: a JSON array for `?`, or an object for `:name`
    #[arg(long, env = "STEADFAST_PARAMS", value_name = "JSON")]
    pub(crate) params: Option<String>,
    /// As it was after this turn
    #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
    pub(crate) turn: Option<i64>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// An export.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// As it was after this turn
    #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
    pub(crate) turn: Option<i64>,
    /// The file, which must not be there yet; CLASS-NAME.sqlite in this folder unless given
    #[arg(long, env = "STEADFAST_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}
