//! Which addresses may be asked for an output. An address in an answer is the word of a stranger:
//! behind it may be this machine, its network, or the service that hands out its credentials.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses with the same beginning: `127.0.0.0/8`, or one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (width, ours, other) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                (32, ours.to_bits().into(), other.to_bits().into())
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => (128, ours.to_bits(), other.to_bits()),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        let shift: u32 = width - u32::from(self.bits);
        let beginning = |it: u128| it.checked_shr(shift).unwrap_or(0);
        beginning(ours) == beginning(other)
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is no network; write it like 10.1.0.0/16 or fd00::/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let alone = Network::from(address.parse::<IpAddr>().map_err(|_| wrong())?);
        let bits = match bits {
            None => alone.bits,
            Some(bits) => bits.parse().ok().filter(|it| *it <= alone.bits).ok_or_else(wrong)?,
        };
        Ok(Self { bits, ..alone })
    }
}

/// Whether an address is one of the public internet: not of this machine, of a network around it,
/// reserved, or one of those written in another way.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_reserved = match (a, b) {
        (0 | 10 | 127, _) | (224.., _) => true,
        (100, 64..=127) => true, // behind a provider's translation
        (169, 254) => true,      // link-local, and the metadata of clouds
        (172, 16..=31) => true,
        (192, 0) => c == 0 || c == 2,
        (192, 88) => c == 99,
        (192, 168) => true,
        (198, 18 | 19) => true,
        (198, 51) => c == 100,
        (203, 0) => c == 113,
        _ => false,
    };
    !is_reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    // Only 2000::/3 is given out. Within it are documentation, benchmarks, and two ways to write an
    // address of version 4 (Teredo, 6to4).
    let is_given_out = segments[0] & 0xe000 == 0x2000;
    let is_special = matches!(
        (segments[0], segments[1]),
        (0x2001, 0..=0x01ff | 0x0db8) | (0x2002, _) | (0x3fff, 0..=0x0fff)
    );
    is_given_out && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_told_from_all_others() {
        for public in ["1.1.1.1", "93.184.216.34", "100.63.0.1", "172.32.0.1", "2606:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "4000::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn a_network_contains_what_begins_like_it() {
        let is_in = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(is_in("127.0.0.1", "127.0.0.1") && !is_in("127.0.0.1", "127.0.0.2"));
        assert!(is_in("10.1.0.0/16", "10.1.255.1") && !is_in("10.1.0.0/16", "10.2.0.1"));
        assert!(is_in("10.1.0.0/16", "::ffff:10.1.2.3"));
        assert!(is_in("0.0.0.0/0", "9.9.9.9") && !is_in("0.0.0.0/0", "::1"));
        assert!(is_in("fd00::/8", "fd12::1") && !is_in("fd00::/8", "fe80::1"));
        assert!(is_in("::/0", "fe80::1"));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "example.com", "10.0.0/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
