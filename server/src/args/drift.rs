//! What comparisons may ask, who explains them, and one from the command line.

use clap::{Args, ValueEnum, builder::FalseyValueParser};
use steadfast_drift::diff::Severity;
use steadfast_egress::Network;

/// What comparisons may ask, and who explains them.
#[derive(Clone, Debug, Args)]
pub(crate) struct DriftArgs {
    /// Hosts that comparisons may ask although they are not public
    #[arg(long, env = "STEADFAST_DRIFT_HOSTS", value_name = "HOST,…", value_delimiter = ',')]
    pub(crate) drift_hosts: Vec<String>,
    /// Networks that comparisons may ask although they are not public
    #[arg(long, env = "STEADFAST_DRIFT_NETWORKS", value_name = "NETWORK,…", value_delimiter = ',')]
    pub(crate) drift_networks: Vec<Network>,
    /// Where a chat API is that explains; without one rules do
    #[arg(long, env = "STEADFAST_EXPLAINER_URL", value_name = "URL")]
    pub(crate) explainer_url: Option<String>,
    /// Its key; better given by the variable
    #[arg(long, env = "STEADFAST_EXPLAINER_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) explainer_key: Option<String>,
    /// Its model
    #[arg(long, env = "STEADFAST_EXPLAINER_MODEL", value_name = "MODEL")]
    pub(crate) explainer_model: Option<String>,
    /// Finished comparisons that each pair of environments remembers
    #[arg(long, env = "STEADFAST_DRIFT_KEEP", default_value = "50", value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) drift_keep: u32,
}

/// `steadfast drift`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// The URL of the one environment: the old one, the reference
    #[arg(value_name = "LEFT")]
    pub(crate) left: String,
    /// The URL of the other
    #[arg(value_name = "RIGHT")]
    pub(crate) right: String,
    /// What the left one is called
    #[arg(long, env = "STEADFAST_LEFT_LABEL", value_name = "NAME")]
    pub(crate) left_label: Option<String>,
    /// What the right one is called
    #[arg(long, env = "STEADFAST_RIGHT_LABEL", value_name = "NAME")]
    pub(crate) right_label: Option<String>,
    /// Exit code 1 if a difference is as bad as this or worse
    #[arg(long, env = "STEADFAST_FAIL_ON", value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,
    /// The server to ask, which remembers; without one it is done here, and nothing is kept
    #[arg(long, env = "STEADFAST_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Prints the JSON of the HTTP API
    #[arg(long, env = "STEADFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) drift: DriftArgs,
}

/// From where on a difference is a failure.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FailOn {
    Warn,
    Critical,
}

impl FailOn {
    /// Whether a comparison with this as its worst is a failure.
    pub(crate) fn is_reached(self, worst: Severity) -> bool {
        match self {
            FailOn::Warn => worst != Severity::Info,
            FailOn::Critical => worst == Severity::Critical,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_bad_or_worse_is_a_failure() {
        let worst = [Severity::Info, Severity::Warn, Severity::Critical];
        assert_eq!(worst.map(|it| FailOn::Warn.is_reached(it)), [false, true, true]);
        assert_eq!(worst.map(|it| FailOn::Critical.is_reached(it)), [false, false, true]);
    }
}
