//! Outbound HTTP that cannot be turned against us.
//!
//! A [`Service`] is a client of an API that the operator named, with a secret. Everything else is
//! for requests on behalf of strangers: [`download_agent`] for code that only downloads, and
//! [`Gate`] for code that speaks HTTP itself.
//!
//! The URL of a stranger must not reach what only this machine can reach: itself, its
//! network, the metadata of its cloud. A [`Gate`] checks in three places, because each alone can be
//! got around: the parsed URL ([`Gate::check`]), every address its name resolves to
//! ([`Gate::resolve`]), and it connects to those checked addresses only ([`Gate::connect`]): a name
//! which answers differently the second time gains nothing. A redirect is a new URL: check it too.
//!
//! For strangers there are no proxies and no settings from the environment: a proxy would resolve
//! the name itself, out of our sight.

#![forbid(unsafe_code)]

mod address;
mod download;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod network;
mod policy;
mod service;
mod target;

pub use self::{
    address::refusal,
    download::{DownloadLimits, download_agent, refused},
    error::EgressError,
    gate::{Connect, Gate, Pinned, Resolve, SystemResolver, TcpConnector},
    network::Network,
    policy::Policy,
    service::{Answer, Poster, Service, ServiceError, ServiceOptions},
    target::{Target, URL_LEN_MAX},
};
