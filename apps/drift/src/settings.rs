//! Settings: the addresses that comparisons may ask, and the model that explains them.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use clap::{Args, ValueEnum, builder::FalseyValueParser};
use steadfast_core::{Error, Result, store::Secret};
use steadfast_egress::{EgressError, Gate, Network, Policy};
use steadfast_web::Number;

use crate::{
    CompareEnvironments, EnvPair, Vault,
    diff::Severity,
    explain::{Chat, ChatOptions, Explainer, Rules},
    probe::{ProbeOptions, Prober},
};

/// Paths of this server itself that may be asked.
const DEMO: &[&str] = &["/api/demo/staging", "/api/demo/production"];

/// Addresses that comparisons may ask, and the model that explains them.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Private hosts that comparisons may request
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    pub(crate) drift_hosts: Vec<String>,
    /// Private networks that comparisons may request
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    pub(crate) drift_networks: Vec<Network>,
    /// URL of a chat API that explains differences; by default, built-in rules explain them
    #[arg(long, value_name = "URL")]
    pub(crate) drift_explainer_url: Option<String>,
    /// Key of the chat API; prefer the variable
    #[arg(long, value_name = "KEY")]
    pub(crate) drift_explainer_key: Option<Secret>,
    /// Model of the chat API
    #[arg(long, value_name = "MODEL")]
    pub(crate) drift_explainer_model: Option<String>,
    /// Finished comparisons to keep for each pair of environments
    #[arg(long, value_name = "COUNT", default_value = "50")]
    pub(crate) drift_keep: Number<1, 1_000>,
}

/// Compare two environments by their URLs; the exit code tells the severity, for CI
#[derive(Clone, Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CompareArgs {
    /// URL of the reference environment
    #[arg(value_name = "LEFT")]
    pub(crate) left: String,
    /// URL of the environment to compare with it
    #[arg(value_name = "RIGHT")]
    pub(crate) right: String,
    /// Label of the left environment
    #[arg(long, env = "STEADFAST_LEFT_LABEL", value_name = "NAME")]
    pub(crate) left_label: Option<String>,
    /// Label of the right environment
    #[arg(long, env = "STEADFAST_RIGHT_LABEL", value_name = "NAME")]
    pub(crate) right_label: Option<String>,
    /// Exit with code 1 if a difference has this severity or a higher one
    #[arg(long, env = "STEADFAST_FAIL_ON", value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,
    /// URL of a server that compares and keeps the result; by default this process compares
    #[arg(long, env = "STEADFAST_SERVER", hide_env_values = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Print the JSON of the HTTP API
    #[arg(long, env = "STEADFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) drift: Settings,
}

const HELP: &str = "\
Exit codes: 0 compared, 1 a difference that --fail-on names was found, 2 not compared.
Requests to private addresses need --drift-hosts or --drift-networks.

Examples:
  steadfast drift https://staging.example.com https://example.com --fail-on critical
  steadfast drift http://10.0.0.5/ https://example.com --drift-networks 10.0.0.0/8 --json
  steadfast drift https://old.example.com https://example.com --server http://127.0.0.1:8787";

/// The parts of the application.
pub(crate) struct Parts {
    pub(crate) policy: Policy,
    pub(crate) pair: EnvPair,
    pub(crate) compare: CompareEnvironments,
    /// The address of the server, once it listens: its demo may be asked.
    pub(crate) address: Arc<OnceLock<SocketAddr>>,
}

impl Settings {
    /// The parts that these settings give. A wrong one is left out, and the error says why: a
    /// program that only answers questions needs none of them.
    pub(crate) fn parts(&self) -> (Parts, Option<Error>) {
        let address = Arc::default();
        let policy = self.policy(&address).map_err(Error::terminal);
        let explainer = self.explainer();
        let error = policy.as_ref().err().or(explainer.as_ref().err()).cloned();
        let policy = policy.unwrap_or_else(|_| Policy::public_only());
        let explainer = explainer.unwrap_or_else(|_| Arc::new(Rules));
        let pair = EnvPair { keep: self.drift_keep.get(), ..EnvPair::default() };
        let prober = Prober::new(Gate::new(policy.clone()), ProbeOptions::default());
        let compare = CompareEnvironments { prober, explainer, vault: Vault::default() };
        (Parts { policy, pair, compare, address }, error)
    }

    fn explainer(&self) -> Result<Arc<dyn Explainer>> {
        match &self.drift_explainer_url {
            None => Ok(Arc::new(Rules)),
            Some(url) => {
                let needed = "--drift-explainer-url needs --drift-explainer-model";
                let model = self.drift_explainer_model.as_deref();
                let model = model.ok_or_else(|| Error::terminal(needed))?;
                let key = self.drift_explainer_key.as_ref().map(Secret::expose);
                let options = ChatOptions::new(url, key, model);
                Ok(Arc::new(Chat::new(options).map_err(Error::terminal)?))
            }
        }
    }

    fn policy(&self, address: &Arc<OnceLock<SocketAddr>>) -> Result<Policy, EgressError> {
        let mut policy = Policy::public_only().allow_own(address.clone(), DEMO);
        for host in &self.drift_hosts {
            policy = policy.allow_host(host)?;
        }
        for network in &self.drift_networks {
            policy = policy.allow_network(*network);
        }
        Ok(policy)
    }
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
