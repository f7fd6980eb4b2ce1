//! Verbs about access keys.

use clap::{Args, Subcommand, builder::FalseyValueParser};

use super::{AskArgs, ListArgs};

/// Verbs about access keys.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeysVerb {
    /// Makes an access key for the S3 API; its secret is shown once
    #[command(after_help = CREATE)]
    Create(KeyCreateArgs),
    /// Lists the access keys, without their secrets
    #[command(after_help = LIST)]
    List(ListArgs),
    /// Revokes an access key, at once
    #[command(after_help = REVOKE)]
    Revoke {
        /// The id of the key
        id: String,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// What a new key may do. Without these flags: everything.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// Only in this bucket
    #[arg(long, env = "STEADFAST_BUCKET", value_name = "BUCKET")]
    pub(crate) bucket: Option<String>,
    /// Only with keys that begin with this
    #[arg(long, env = "STEADFAST_PREFIX", value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
    /// Only reading
    #[arg(long, env = "STEADFAST_READ_ONLY", value_parser = FalseyValueParser::new())]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

const CREATE: &str = "\
Examples:
  steadfast keys create
  steadfast keys create --bucket photos --prefix 2026/ --read-only --json";

const LIST: &str = "\
Example:
  steadfast keys list";

const REVOKE: &str = "\
Example:
  steadfast keys revoke SFABCDEFGHIJKLMNOPQR";
