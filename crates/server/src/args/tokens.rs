//! Verbs about tokens.

use clap::Subcommand;

use super::AskArgs;

/// Verbs about tokens of organizations.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokensVerb {
    /// Makes a token for an organization; it is shown once
    #[command(after_help = CREATE)]
    Create {
        /// The organization
        #[arg(long, env = "STEADFAST_ORGANIZATION", value_name = "ORG")]
        organization: String,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lists the tokens, without what opens the door
    #[command(after_help = LIST)]
    List(AskArgs),
    /// Revokes a token, at once
    #[command(after_help = REVOKE)]
    Revoke {
        /// The id of the token
        id: String,
        #[command(flatten)]
        ask: AskArgs,
    },
}

const CREATE: &str = "\
While there is no token, everybody on this machine may do everything.

Example:
  steadfast tokens create --organization acme --json";

const LIST: &str = "\
Example:
  steadfast tokens list";

const REVOKE: &str = "\
Example:
  steadfast tokens revoke ABCDEFGHIJ";
