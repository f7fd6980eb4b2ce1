//! Networks of proxies, and the public URL of a server.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::Uri;

/// A range of addresses: `10.1.0.0/16`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    base: IpAddr,
    prefix: u32,
}

impl Network {
    /// Whether the address is in this range. An IPv4 address that is mapped into IPv6 counts as
    /// IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(it)) => {
                let differing = base.to_bits() ^ it.to_bits();
                differing.leading_zeros() >= self.prefix
            }
            (IpAddr::V6(base), IpAddr::V6(it)) => {
                let differing = base.to_bits() ^ it.to_bits();
                differing.leading_zeros() >= self.prefix
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write an address or a network, for example 10.1.0.0/16 or fd00::/8";
        let (base, prefix) = text.split_once('/').map_or((text, None), |(it, n)| (it, Some(n)));
        let base: IpAddr = base.trim().parse().map_err(|_| WRONG)?;
        const EVERYBODY: &str = "name the addresses of proxies only: a network this large has \
                                 clients, too; at least /8 for IPv4 and /7 for IPv6";
        // The shortest private networks are 10.0.0.0/8 and fc00::/7.
        let (shortest, width) = if base.is_ipv4() { (8, 32) } else { (7, 128) };
        let prefix = prefix.map_or(Ok(width), |it| it.trim().parse().map_err(|_| WRONG))?;
        match prefix {
            _ if prefix < shortest => Err(EVERYBODY),
            _ if prefix > width => Err(WRONG),
            _ => Ok(Self { base, prefix }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// The scheme of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Parses a scheme of a URL or a header.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("http") => Some(Self::Http),
            _ if text.eq_ignore_ascii_case("https") => Some(Self::Https),
            _ => None,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// The URL by which clients reach the server: scheme and host, without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// `https://steadfast.example.org`, as browsers write an origin.
    origin: String,
    /// The host without its port, in lower case.
    name: String,
}

impl PublicUrl {
    /// Its text, without a slash at the end. Browsers send it as `Origin`.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether a `Host` header names this host; the port may differ.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        without_port(host).is_some_and(|it| it.eq_ignore_ascii_case(&self.name))
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "write the scheme and the host, for example https://steadfast.example.org";
        let url: Uri = text.parse().map_err(|_| WRONG)?;
        let scheme = url.scheme_str().and_then(Scheme::of).ok_or(WRONG)?;
        let authority = url.authority().ok_or(WRONG)?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || text.contains(['@', '#']) {
            return Err(WRONG);
        }
        let name = authority.host().to_ascii_lowercase();
        // Browsers leave out the default port.
        let port = match (scheme, authority.port_u16()) {
            (_, None) | (Scheme::Http, Some(80)) | (Scheme::Https, Some(443)) => String::new(),
            (Scheme::Http | Scheme::Https, Some(port)) => format!(":{port}"),
        };
        Ok(Self { origin: format!("{scheme}://{name}{port}"), name })
    }
}

/// The host of a `Host` header without its port; `None` if the port is not a number.
pub(crate) fn without_port(host: &str) -> Option<&str> {
    match host.rsplit_once(':') {
        // The colons of a bare [::1] are inside the brackets.
        Some((name, port)) if !port.ends_with(']') => {
            let is_port = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
            is_port.then_some(name)
        }
        Some(_) | None => Some(host),
    }
}

/// Whether a `Host` header names this machine.
pub(crate) fn is_own_name(host: &str) -> bool {
    let Some(name) = without_port(host) else { return false };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match bare.unwrap_or(name).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => bare.is_none() && address.is_loopback(),
        Ok(IpAddr::V6(address)) => bare.is_some() && address.is_loopback(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let check = |network: &str, address: &str, expected: bool| {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{address}");
        };
        check("10.1.0.0/16", "10.1.255.1", true);
        check("10.1.0.0/16", "10.2.0.1", false);
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "10.1.2.4", false);
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "2001:db8::1", false);
        check("fc00::/7", "fdff::1", true);
        check("fc00::/7", "103.0.113.9", false);
        check("fd00::/8", "fdff::1", true);
        check("fd00::/8", "fe80::1", false);
        check("127.0.0.0/8", "::ffff:127.0.0.1", true);
        for wrong in [
            "",
            "0.0.0.0/0",
            "::/0",
            "0.0.0.0/1",
            "128.0.0.0/1",
            "10.0.0.0/7",
            "8000::/1",
            "fc00::/6",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.0/-1",
            "10.0.0/8",
            "proxy",
            "1.2.3.4/",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_own() {
        for own in [
            "localhost",
            "LOCALHOST:8787",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:8787",
        ] {
            assert!(is_own_name(own), "{own}");
        }
        for foreign in [
            "",
            "example.org",
            "127.0.0.1.example.org",
            "localhost.example.org",
            "10.0.0.1",
            "[::2]:80",
            "::1",
            "localhost:",
            "localhost:8x",
            "127.1",
            "0.0.0.0",
            "a@localhost",
            "localhost:1:2",
        ] {
            assert!(!is_own_name(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_public_url_has_a_scheme_and_a_host_only() {
        let url: PublicUrl = "https://Gate.Example.org:443/".parse().unwrap();
        assert_eq!(url.origin(), "https://gate.example.org");
        assert!(url.has_host("gate.example.ORG") && url.has_host("gate.example.org:8443"));
        assert!(!url.has_host("gate.example.org.evil") && !url.has_host("gate.example.org:x"));
        let url: PublicUrl = "http://[2001:db8::1]:8787".parse().unwrap();
        assert_eq!(url.origin(), "http://[2001:db8::1]:8787");
        assert!(url.has_host("[2001:db8::1]"));
        for wrong in [
            "gate.example.org",
            "ftp://gate.example.org",
            "https://gate.example.org/path",
            "https://gate.example.org?x",
            "https://me@gate.example.org",
            "https://",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
