//! Which addresses a request on behalf of a stranger may reach.
//!
//! Whoever gives us a URL must not thereby reach what only this machine can reach: itself, its
//! network, the metadata of its cloud. A [`Gate`] checks in three places, because each alone can be
//! got around: the parsed URL ([`Gate::check`]), every address its name resolves to
//! ([`Gate::resolve`]), and it connects to those checked addresses only ([`Gate::connect`]): a name
//! which answers differently the second time gains nothing. A redirect is a new URL: check it too.
//!
//! It sends nothing and knows no HTTP. There are no proxies and no settings from the environment: a
//! proxy would resolve the name itself, out of our sight.

#![forbid(unsafe_code)]

mod address;
mod error;
mod gate;
mod network;
mod policy;
mod target;
pub mod test;

pub use self::{
    address::refusal,
    error::EgressError,
    gate::{Connect, Gate, Pinned, Resolve, SystemResolver, TcpConnector},
    network::Network,
    policy::Policy,
    target::{Target, URL_LEN_MAX},
};
