//! An HTTP client for URLs of strangers, for code that only downloads.
//!
//! The checks are in the resolver. The client asks it for every hop, with the whole URL, and
//! connects to the addresses that it returns. So a name cannot lead elsewhere between check and
//! use, and a redirect is checked like the first URL.

use std::time::Duration;

use ureq::{
    Agent,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use crate::{EgressError, Policy, service::tls};

/// Limits of one download.
#[derive(Clone, Copy, Debug)]
pub struct DownloadLimits {
    /// Maximum redirects.
    pub redirects_max: u32,
    /// Maximum time without a byte.
    pub idle: Duration,
    /// Timeout of the whole download.
    pub timeout: Duration,
}

/// A client that connects to what the policy allows, and to nothing else.
pub fn download_agent(policy: Policy, limits: DownloadLimits) -> Agent {
    let config = Agent::config_builder()
        .tls_config(tls())
        .http_status_as_error(false)
        // A proxy would resolve names by itself, without these checks.
        .proxy(None)
        .max_redirects(limits.redirects_max)
        .max_redirects_will_error(true)
        // A connection that is kept was checked for another URL.
        .max_idle_connections(0)
        .timeout_connect(Some(Duration::from_secs(10).min(limits.timeout)))
        .timeout_per_read(Some(limits.idle))
        .timeout_global(Some(limits.timeout))
        .build();
    let guard = Guard { policy, inner: DefaultResolver::default() };
    Agent::with_parts(config, DefaultConnector::default(), guard)
}

/// The refusal behind an error of a [`download_agent`], if the policy refused.
pub fn refused(error: &ureq::Error) -> Option<&EgressError> {
    let ureq::Error::Other(inner) = error else { return None };
    inner.downcast_ref()
}

#[derive(Debug)]
struct Guard {
    policy: Policy,
    inner: DefaultResolver,
}

impl Resolver for Guard {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let refuse = |error: EgressError| ureq::Error::Other(Box::new(error));
        // The policy is about hosts. Signed paths are longer than a URL that a person enters.
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |it| it.as_str());
        let target = self.policy.check(&format!("{scheme}://{authority}/")).map_err(refuse)?;
        let found = self.inner.resolve(uri, config, timeout)?;
        // A name with one public and one private address is a trap, not a choice.
        for address in found.iter() {
            self.policy.check_address(&target, *address).map_err(refuse)?;
        }
        Ok(found)
    }
}
