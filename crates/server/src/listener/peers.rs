//! Connections per client address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;

/// Bits of an IPv6 address that the system of a client chooses by itself.
const HOST_BITS: u32 = 64;

/// The connections of each client address to one port.
#[derive(Default)]
pub(super) struct PeerCounts(Mutex<HashMap<IpAddr, usize>>);

impl PeerCounts {
    /// Counts a connection, unless its peer has this many already.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr, max: usize) -> Option<PeerGuard> {
        let peer = network_of(peer);
        let mut counts = self.0.lock();
        let count = counts.entry(peer).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(PeerGuard { counts: self.clone(), peer })
    }
}

/// A client has a whole network of IPv6 addresses.
pub(crate) fn network_of(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS).into()
        }
    }
}

/// A counted connection. It belongs to the socket: after an upgrade the connection of HTTP ends,
/// but the socket stays.
pub(super) struct PeerGuard {
    counts: Arc<PeerCounts>,
    peer: IpAddr,
}

impl Drop for PeerGuard {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.counts.0.lock().entry(self.peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_number_of_connections_and_others_have_theirs() {
        let counts = Arc::new(PeerCounts::default());
        let take = |peer: &str| counts.take(peer.parse().unwrap(), 2);
        let (first, second) = (take("203.0.113.9"), take("203.0.113.9"));
        assert!(first.is_some() && second.is_some() && take("203.0.113.9").is_none());
        assert!(take("203.0.113.10").is_some());
        drop(first);
        assert!(take("203.0.113.9").is_some());
        drop(second);
        assert!(counts.0.lock().is_empty(), "no entry stays behind");
        let _same = (take("2001:db8::1"), take("2001:db8::2"));
        assert!(take("2001:db8::3").is_none() && take("2001:db8:0:1::1").is_some());
    }
}
