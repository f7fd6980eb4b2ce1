//! Flags of the transport: TLS, proxies, webhooks and connections.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::listen;
use crate::network::{Network, PublicUrl};

/// The transport of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransportArgs {
    /// Certificate chain in PEM; with it all ports speak TLS only. A changed file is read again
    #[arg(long, env = "STEADFAST_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, env = "STEADFAST_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// URL by which clients reach this server: requests for its host are accepted, and its pages
    /// are our own. Needs closed access
    #[arg(long, env = "STEADFAST_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// URL by which clients reach the S3 API, for presigned URLs. Needs closed access
    #[arg(long, env = "STEADFAST_S3_PUBLIC_URL", value_name = "URL")]
    pub(crate) s3_public_url: Option<PublicUrl>,
    /// Networks of proxies whose `Forwarded` and `X-Forwarded-*` headers are believed
    #[arg(long, env = "STEADFAST_TRUSTED_PROXY", value_name = "CIDR,…", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Network>,
    /// Address of a port for the webhooks of providers; it serves nothing else
    #[arg(long, env = "STEADFAST_WEBHOOKS_LISTEN", value_name = "ADDRESS", value_parser = listen)]
    pub(crate) webhooks_listen: Option<SocketAddr>,
    /// Maximum connections of one client address to one port; trusted proxies are exempt, as is
    /// this machine while access is open
    #[arg(long, env = "STEADFAST_CONNECTIONS_PER_PEER", default_value = "256", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections_per_peer: u32,
    /// Seconds in which a client has to send or read something, or it is disconnected; each KiB
    /// gives it another second, up to this time
    #[arg(long, env = "STEADFAST_CLIENT_TIMEOUT", default_value = "20", value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) client_timeout: u64,
}
