//! The client of a request: its address, scheme and host, also behind trusted proxies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, Uri, header};

use crate::{listener::network_of, network::Scheme};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The client of a request, in its extensions. Logs, limits, cookies and checks of origins use it
/// instead of headers, which anybody can send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    /// Address of the client; of the last proxy if that does not say it.
    pub(crate) address: IpAddr,
    /// Scheme that the client used.
    pub(crate) scheme: Scheme,
    /// Host that the client named, with its port; `None` if it named none or several.
    pub(crate) host: Option<String>,
}

/// One hop as a proxy describes it.
#[derive(Debug, Default, PartialEq)]
struct Hop {
    address: Option<IpAddr>,
    scheme: Option<Scheme>,
    host: Option<String>,
}

impl ClientInfo {
    /// The client is the peer itself.
    pub(crate) fn direct(peer: IpAddr, scheme: Scheme, uri: &Uri, headers: &HeaderMap) -> Self {
        Self { address: peer.to_canonical(), scheme, host: host(uri, headers) }
    }

    /// A request that did not come through a port.
    pub(crate) fn in_process(uri: &Uri, headers: &HeaderMap) -> Self {
        Self::direct(Ipv4Addr::LOCALHOST.into(), Scheme::Http, uri, headers)
    }

    /// The network of the client, the key of its limits: it has all addresses of an IPv6 network.
    pub(crate) fn network(&self) -> String {
        network_of(self.address).to_string()
    }

    /// The URL of the server as the client wrote it.
    pub(crate) fn origin(&self) -> Option<String> {
        self.host.as_ref().map(|it| format!("{}://{it}", self.scheme))
    }

    /// Applies the headers of a trusted proxy. If both kinds of headers are there and differ, one
    /// of them comes from the client, and neither is believed.
    pub(super) fn forwarded(self, headers: &HeaderMap, is_proxy: impl Fn(IpAddr) -> bool) -> Self {
        let standard = self.applied(forwarded_hops(headers), &is_proxy);
        let usual = self.applied(x_forwarded_hops(headers), &is_proxy);
        match (standard, usual) {
            (Some(one), Some(other)) if one.address == other.address => other,
            (Some(_), Some(_)) | (None, None) => self,
            (Some(one), None) | (None, Some(one)) => one,
        }
    }

    /// Follows the hops from the nearest one, as long as proxies report them.
    fn applied(&self, hops: Vec<Hop>, is_proxy: impl Fn(IpAddr) -> bool) -> Option<Self> {
        if hops.is_empty() {
            return None;
        }
        let mut found = self.clone();
        for hop in hops.into_iter().rev() {
            found.scheme = hop.scheme.unwrap_or(found.scheme);
            found.host = hop.host.or(found.host);
            let Some(address) = hop.address else { break };
            found.address = address;
            if !is_proxy(address) {
                break;
            }
        }
        Some(found)
    }
}

/// The name that the request is for. A name in the request line must be that of the header: a proxy
/// may have checked the other one.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut named = headers.get_all(header::HOST).into_iter();
    let (first, second) = (named.next(), named.next());
    if second.is_some() {
        return None;
    }
    let first = first.map(|it| it.to_str()).transpose().ok()?;
    match (uri.authority(), first) {
        (Some(authority), Some(first)) if !authority.as_str().eq_ignore_ascii_case(first) => None,
        (Some(authority), _) => Some(authority.as_str().to_owned()),
        (None, first) => first.map(str::to_owned),
    }
}

/// The comma-separated values of all headers with this name.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let texts = headers.get_all(name).into_iter().map(|it| it.to_str().unwrap_or_default());
    texts.flat_map(|it| split(it, ',')).map(str::trim).collect()
}

/// Splits outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |it: char| {
        is_quoted ^= it == '"';
        it == separator && !is_quoted
    })
}

/// The hops of `X-Forwarded-*`, the nearest last. A proxy that sets scheme or host sets one value
/// for the whole way, or appends one per hop.
fn x_forwarded_hops(headers: &HeaderMap) -> Vec<Hop> {
    let [addresses, schemes, hosts] = [FOR, PROTO, HOST].map(|it| values(headers, &it));
    let count = addresses.len().max(usize::from(!(schemes.is_empty() && hosts.is_empty())));
    let of = |all: &[&str], back: usize| {
        all.len().checked_sub(back).and_then(|it| all.get(it)).map(|it| (*it).to_owned())
    };
    let hop = |back| Hop {
        address: of(&addresses, back).and_then(|it| address(&it)),
        scheme: of(&schemes, back).and_then(|it| Scheme::of(&it)),
        host: of(&hosts, back).filter(|it| !it.is_empty()),
    };
    (1..=count).rev().map(hop).collect()
}

/// The hops of `Forwarded` (RFC 7239), the nearest last.
fn forwarded_hops(headers: &HeaderMap) -> Vec<Hop> {
    values(headers, &header::FORWARDED).into_iter().map(hop).collect()
}

fn hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split(element, ';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => hop.address = address(value),
            "proto" => hop.scheme = Scheme::of(value),
            "host" => hop.host = Some(value.to_owned()).filter(|it| !it.is_empty()),
            _ => {}
        }
    }
    hop
}

/// An address with or without a port. Names such as `unknown` are none.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok();
    let address = address.or_else(|| text.parse().ok().map(|it: SocketAddr| it.ip()));
    address.map(|it| it.to_canonical())
}
