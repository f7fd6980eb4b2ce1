//! Fuzz targets: URLs of strangers, and messages about their answers.

use std::net::IpAddr;

use crate::{Network, Policy, URL_LEN_MAX, refusal};

/// A URL that a stranger gives, or a network that an operator allows.
pub fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(network) = text.parse::<Network>() {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
    let policy = Policy::public_only();
    let Ok(target) = policy.check(&text) else { return };
    let url = target.url();
    assert!(url.as_str().len() <= URL_LEN_MAX);
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    assert!(matches!(url.scheme(), "http" | "https") && target.port() != 0);
    match target.literal() {
        Some(address) => assert!(refusal(address).is_none() && !is_inside(address), "{address}"),
        None => assert!(target.host().contains('.'), "{} is a local name", target.host()),
    }
    // The connection is made with the URL as it is written now.
    assert_eq!(policy.check(url.as_str()), Ok(target.clone()));
}

/// Asserts that a message about an answer of a stranger can be recorded and shown.
pub fn assert_short(message: &str) {
    assert!(message.chars().count() <= 400, "{} bytes", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// Whether an address is of this machine or its network, as the standard library sees it.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            it.is_loopback() || it.is_private() || it.is_link_local() || it.is_unspecified()
        }
        IpAddr::V6(it) => match it.to_ipv4() {
            Some(inner) => is_inside(inner.into()),
            None => it.is_loopback() || it.is_unique_local() || it.is_unicast_link_local(),
        },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn urls_of_strangers_lead_to_public_addresses() {
        steadfast_mutations::run("url", super::url, 2_000);
    }
}
