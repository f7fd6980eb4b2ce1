//! Which addresses are public.
//!
//! Everything is refused unless it is known to be public: a range that is assigned tomorrow is then
//! missing, not open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::network::Network;

/// IANA's special ranges of IPv4 that do not lead into the public network, and those of clouds.
const SPECIAL_V4: &[(Network, &str)] = &[
    (Network::v4(0, 0, 0, 0, 8), "an address of this host"),
    (Network::v4(10, 0, 0, 0, 8), "a private address"),
    (Network::v4(100, 64, 0, 0, 10), "an address behind a carrier's NAT"),
    (Network::v4(127, 0, 0, 0, 8), "a loopback address"),
    (Network::v4(169, 254, 0, 0, 16), "a link-local address"),
    (Network::v4(172, 16, 0, 0, 12), "a private address"),
    (Network::v4(192, 0, 0, 0, 24), "an address for protocols"),
    (Network::v4(192, 0, 2, 0, 24), "an address for documentation"),
    (Network::v4(192, 88, 99, 0, 24), "an address of 6to4 relays"),
    (Network::v4(192, 168, 0, 0, 16), "a private address"),
    (Network::v4(198, 18, 0, 0, 15), "an address for benchmarks"),
    (Network::v4(198, 51, 100, 0, 24), "an address for documentation"),
    (Network::v4(203, 0, 113, 0, 24), "an address for documentation"),
    (Network::v4(224, 0, 0, 0, 4), "a multicast address"),
    (Network::v4(240, 0, 0, 0, 4), "a reserved address"),
    // Public by its range, but in Azure it answers every machine with its own secrets.
    (Network::v4(168, 63, 129, 16, 32), "an address of a cloud's host"),
];

/// All of IPv6 that is assigned to anybody.
const GLOBAL_V6: Network = Network::v6(0x2000, 0, 0, 3);

/// Special ranges within it.
const SPECIAL_V6: &[(Network, &str)] = &[
    (Network::v6(0x2001, 0, 0, 23), "an address for protocols"),
    (Network::v6(0x2001, 0xdb8, 0, 32), "an address for documentation"),
    // Packets to it go to the IPv4 address inside. Nobody serves anything there any more.
    (Network::v6(0x2002, 0, 0, 16), "a 6to4 address"),
    (Network::v6(0x3fff, 0, 0, 20), "an address for documentation"),
];

/// Why an address is not public, or `None` if it is.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match canonical(address) {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

/// The IPv4 address that is reached through an IPv6 one, if it is such a one.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(mapped) = v6.to_ipv4_mapped() {
        return mapped.into();
    }
    // NAT64: without IPv4, public hosts resolve to these, so they cannot be refused as a whole.
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
        }
        _ => address,
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    found(SPECIAL_V4, address.into())
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    if GLOBAL_V6.contains(address.into()) {
        return found(SPECIAL_V6, address.into());
    }
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an address of this host",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        _ => "a reserved address",
    })
}

fn found(list: &[(Network, &'static str)], address: IpAddr) -> Option<&'static str> {
    list.iter().find(|(network, _)| network.contains(address)).map(|(_, reason)| *reason)
}
