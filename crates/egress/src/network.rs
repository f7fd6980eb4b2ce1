//! A range of addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use crate::EgressError;

/// A range of addresses: `10.1.0.0/16`, `fd00::/8`, or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

impl Network {
    pub(crate) const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    pub(crate) const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Self {
        Self { base: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), prefix }
    }

    /// Whether the address lies in it. A mapped IPv4 address is no IPv4 address here.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                same_prefix(base.to_bits().into(), address.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                same_prefix(base.to_bits(), address.to_bits(), 128, self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, width: u8, prefix: u8) -> bool {
    // Shifting by the whole width is not defined, and the empty prefix is everybody's.
    prefix == 0 || (a ^ b) >> (width - prefix) == 0
}

impl From<IpAddr> for Network {
    fn from(base: IpAddr) -> Self {
        Self { base, prefix: if base.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = EgressError;

    fn from_str(text: &str) -> Result<Self, EgressError> {
        let wrong = || EgressError::invalid(format!("{text:?} is no network, as 10.1.0.0/16 is"));
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = base.trim().parse().map_err(|_| wrong())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.trim().parse().map_err(|_| wrong())?,
            None => width,
        };
        if prefix > width {
            return Err(wrong());
        }
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_edges_and_nothing_beyond() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.0.0.0", "9.255.255.255"),
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("100.64.0.0/10", "100.127.255.255", "100.128.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("fc00::/7", "fdff::1", "fe00::1"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "10.1.1.1", "::ffff:10.1.1.1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.255.255.255".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129", "a/8", "/8"] {
            assert_eq!(text.parse::<Network>().unwrap_err().code(), "invalid_url", "{text}");
        }
    }
}
