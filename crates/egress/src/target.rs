//! A URL that has been understood.

use std::net::IpAddr;

use url::{Host, Url};

use crate::EgressError;

/// The longest URL that is looked at.
pub const URL_LEN_MAX: usize = 2_048;

/// A URL with everything that is checked about it. Only a [`Gate`](crate::Gate) or a
/// [`Policy`](crate::Policy) makes one, so it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

impl Target {
    /// Understands a text. What only a lenient reader accepts is refused, because two lenient
    /// readers differ, and the check and the connection would then be about two hosts.
    pub(crate) fn parse(text: &str) -> Result<Self, EgressError> {
        let text = text.trim_matches(' ');
        if text.len() > URL_LEN_MAX {
            let message = format!("the URL has {} bytes; {URL_LEN_MAX} is the most", text.len());
            return Err(EgressError::invalid(message));
        }
        if let Some(bad) = text.chars().find(|it| it.is_control() || *it == '\\') {
            let message = format!("the URL contains {bad:?}; write it percent-encoded");
            return Err(EgressError::invalid(message));
        }
        let url = Url::parse(text).map_err(|error| match zoned(text) {
            Some(host) => EgressError::blocked(host, "an address within one network"),
            None => EgressError::invalid(format!("this is no URL: {error}")),
        })?;
        Self::from_url(url)
    }

    pub(crate) fn from_url(mut url: Url) -> Result<Self, EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("the scheme {} is not fetched; use http or https", url.scheme());
            return Err(EgressError::invalid(message));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::invalid("the URL contains a user or password; leave it out"));
        }
        if url.as_str().len() > URL_LEN_MAX {
            return Err(EgressError::invalid("the URL is too long once it is encoded"));
        }
        url.set_fragment(None);
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(EgressError::invalid("the URL has no host"));
        };
        let host = host.to_owned();
        if let Host::Domain(name) = &host {
            check_name(name)?;
        }
        if port == 0 {
            return Err(EgressError::invalid("the port 0 is nobody's"));
        }
        Ok(Self { url, host, port })
    }

    /// The URL, normalized and without its fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The port, also when the URL does not name it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The address, if the host is one instead of a name.
    pub fn literal(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some((*address).into()),
            Host::Ipv6(address) => Some((*address).into()),
        }
    }

    /// The host: a name in lower case without its last dot, or an address without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        }
    }
}

/// An address with a zone, as in `[fe80::1%25eth0]`: URLs have none, and it would be local.
fn zoned(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://[")?;
    let (host, _) = rest.split_once(']')?;
    let (address, _) = host.split_once('%')?;
    address.parse::<std::net::Ipv6Addr>().is_ok().then_some(host)
}

/// Names as DNS has them. The parser of URLs lets more pass, which no resolver should see.
fn check_name(name: &str) -> Result<(), EgressError> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let is_label = |it: &str| {
        (1..=63).contains(&it.len())
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
    };
    if bare.len() > 253 || !bare.split('.').all(is_label) {
        return Err(EgressError::invalid(format!("{name:?} is no name of a host")));
    }
    Ok(())
}
