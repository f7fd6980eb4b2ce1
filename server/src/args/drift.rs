//! What comparisons may ask, and who explains them.

use clap::Args;
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
}
