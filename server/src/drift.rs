//! What the application drift may ask, and who explains, as the command line says.

use std::{net::SocketAddr, sync::Arc};

use steadfast_ai::{
    classify::Pool,
    explain::{Chat, ChatOptions, Embedded, Explainer},
};
use steadfast_drift::{
    CompareEnvironments, EnvPair, Vault,
    probe::{ProbeOptions, Prober},
};
use steadfast_egress::{EgressError, Gate, Policy};

use crate::{args::DriftArgs, failure::Failure};

/// What of this server itself may be asked.
const DEMO: [&str; 2] = ["/api/demo/staging", "/api/demo/production"];

/// What comparisons need.
#[derive(Clone)]
pub(crate) struct Drift {
    pub(crate) policy: Policy,
    pub(crate) pair: EnvPair,
    pub(crate) compare: CompareEnvironments,
}

impl Drift {
    /// As the command line says; the demo is at the address that is listened on.
    pub(crate) fn of(args: &DriftArgs, listen: SocketAddr) -> Result<Self, Failure> {
        let policy = policy(args, listen).map_err(|it| Failure::new(it.to_string()))?;
        let explainer: Arc<dyn Explainer> = match &args.explainer_url {
            None => Arc::new(Embedded),
            Some(url) => {
                let needed = "--explainer-url needs --explainer-model";
                let model = args.explainer_model.as_deref();
                let model = model.ok_or_else(|| Failure::new(needed))?;
                let options = ChatOptions::new(url, args.explainer_key.as_deref(), model);
                let pool = Pool::new("explain", 4).map_err(|it| Failure::new(it.to_string()))?;
                Arc::new(Chat::new(options, pool).map_err(|it| Failure::new(it.to_string()))?)
            }
        };
        let pair = EnvPair { keep: args.drift_keep, ..EnvPair::default() };
        Ok(Self { pair, ..Self::new(policy, explainer) })
    }

    /// Where only questions are asked, nothing is compared.
    pub(crate) fn none() -> Self {
        Self::new(Policy::public_only(), Arc::new(Embedded))
    }

    fn new(policy: Policy, explainer: Arc<dyn Explainer>) -> Self {
        let prober = Prober::new(Gate::new(policy.clone()), ProbeOptions::default());
        let compare = CompareEnvironments { prober, explainer, vault: Vault::default() };
        Self { policy, pair: EnvPair::default(), compare }
    }
}

fn policy(args: &DriftArgs, listen: SocketAddr) -> Result<Policy, EgressError> {
    let mut policy = Policy::public_only();
    for host in ["localhost".to_owned(), listen.ip().to_string()] {
        policy = policy.allow_paths(&host, listen.port(), &DEMO)?;
    }
    for host in &args.drift_hosts {
        policy = policy.allow_host(host)?;
    }
    for network in &args.drift_networks {
        policy = policy.allow_network(*network);
    }
    Ok(policy)
}
