//! The addresses that may be reached.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use url::Url;

use crate::{
    EgressError, Network, Target,
    address::{canonical, refusal},
};

/// Names that lead into a local network wherever they are resolved.
const LOCAL_SUFFIXES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "onion",
];

/// Ports of other protocols that browsers refuse as well, since a request may be read as a command.
const BAD_PORTS: &[u16] = &[
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080, 11211,
];

/// The addresses that may be reached: public ones, and those that an operator named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    hosts: Vec<String>,
    networks: Vec<Network>,
    endpoints: Vec<Endpoint>,
    own: Option<Own>,
    /// If there are some, other hosts are refused.
    only: Vec<String>,
    web_ports_only: bool,
}

/// Paths of the server that this process is, wherever it will listen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    address: Arc<OnceLock<SocketAddr>>,
    paths: &'static [&'static str],
}

/// A host and a port that are allowed together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    host: String,
    port: u16,
}

impl Policy {
    /// Public addresses only.
    pub fn public_only() -> Self {
        Self::default()
    }

    /// Allows a host by its name or address, on every port and wherever it leads.
    pub fn allow_host(mut self, host: &str) -> Result<Self, EgressError> {
        self.hosts.push(parse_host(host)?);
        Ok(self)
    }

    /// Allows all addresses of a network, also for names that resolve into it.
    pub fn allow_network(mut self, network: Network) -> Self {
        self.networks.push(network);
        self
    }

    /// Allows exactly this host (as it stands in the URL) on exactly this port.
    pub fn allow_endpoint(mut self, host: &str, port: u16) -> Result<Self, EgressError> {
        self.endpoints.push(Endpoint { host: parse_host(host)?, port });
        Ok(self)
    }

    /// Refuses all hosts but these and those below them; none refuses nothing.
    pub fn only_hosts(mut self, hosts: &[String]) -> Self {
        self.only = hosts.iter().map(|it| it.to_ascii_lowercase()).collect();
        self
    }

    /// Refuses ports other than 80 and 443, except in networks that are allowed.
    pub fn web_ports_only(mut self) -> Self {
        self.web_ports_only = true;
        self
    }

    /// Allows exactly these paths of the server that this process is, once its address is known.
    /// It is how a server lets its own demo be fetched, and nothing else of itself.
    pub fn allow_own(
        mut self,
        address: Arc<OnceLock<SocketAddr>>,
        paths: &'static [&'static str],
    ) -> Self {
        self.own = Some(Own { address, paths });
        self
    }

    /// Understands a URL and checks what can be told without resolving its name.
    pub fn check(&self, text: &str) -> Result<Target, EgressError> {
        self.check_target(Target::parse(text)?)
    }

    /// The same for a URL that is parsed already.
    pub fn check_url(&self, url: Url) -> Result<Target, EgressError> {
        self.check_target(Target::from_url(url)?)
    }

    fn check_target(&self, target: Target) -> Result<Target, EgressError> {
        if self.is_named(&target) {
            return Ok(target);
        }
        let host = target.host();
        if !self.only.is_empty() && !self.only.iter().any(|it| is_below(&host, it)) {
            return Err(EgressError::blocked(host, "it is not one of the hosts"));
        }
        if let Some(address) = target.literal() {
            self.check_ip(address)?;
        } else if is_local_name(&host) && self.networks.is_empty() {
            // With a network allowed its addresses decide: names of that network look like this.
            return Err(EgressError::blocked(host, "a name of a local network"));
        }
        if BAD_PORTS.contains(&target.port()) {
            let reason = format!("the port {} belongs to another protocol", target.port());
            return Err(EgressError::blocked(host, reason));
        }
        Ok(target)
    }

    /// Checks one address that the target's name resolved to.
    pub fn check_address(&self, target: &Target, address: SocketAddr) -> Result<(), EgressError> {
        if self.is_named(target) {
            return Ok(());
        }
        let Err(EgressError::Blocked { reason, .. }) = self.check_ip(address.ip()) else {
            let is_web = matches!(address.port(), 80 | 443) || self.is_allowed(address.ip());
            if self.web_ports_only && !is_web {
                let reason = format!("the port {} is not 80 or 443", address.port());
                return Err(EgressError::blocked(target.host(), reason));
            }
            return Ok(());
        };
        // The name, not the address: a stranger learns nothing about the local network's DNS.
        Err(EgressError::blocked(target.host(), format!("it resolves to {reason}")))
    }

    fn check_ip(&self, address: IpAddr) -> Result<(), EgressError> {
        match refusal(address) {
            Some(reason) if !self.is_allowed(address) => {
                Err(EgressError::blocked(address.to_string(), reason))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether an operator has allowed a network with this address.
    fn is_allowed(&self, address: IpAddr) -> bool {
        let is_in = |it: &Network| it.contains(address) || it.contains(canonical(address));
        self.networks.iter().any(is_in)
    }

    /// Whether an operator has named this very target.
    fn is_named(&self, target: &Target) -> bool {
        let host = target.host();
        let is_endpoint = |it: &Endpoint| it.host == host && it.port == target.port();
        let is_own = |it: &Own| {
            it.address.get().is_some_and(|address| {
                let is_host = host == "localhost" || target.literal() == Some(address.ip());
                is_host
                    && target.port() == address.port()
                    && it.paths.contains(&target.url().path())
            })
        };
        self.hosts.contains(&host)
            || self.endpoints.iter().any(is_endpoint)
            || self.own.as_ref().is_some_and(is_own)
    }
}

/// A host as a target spells it, so that both can be compared.
fn parse_host(host: &str) -> Result<String, EgressError> {
    let bare = host.trim();
    let is_bare_v6 = bare.contains(':') && !bare.starts_with('[');
    let text = if is_bare_v6 { format!("http://[{bare}]/") } else { format!("http://{bare}/") };
    let target = Target::parse(&text)?;
    if target.url().port().is_some() || &target.url()[url::Position::BeforePath..] != "/" {
        return Err(EgressError::invalid(format!("{host:?} is no host alone")));
    }
    Ok(target.host())
}

fn is_local_name(name: &str) -> bool {
    // A name without a dot is completed by this machine's search list, to a neighbour of it.
    !name.contains('.') || LOCAL_SUFFIXES.iter().any(|it| is_below(name, it))
}

/// Whether a name is this one or below it.
fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|it| it.is_empty() || it.ends_with('.'))
}
