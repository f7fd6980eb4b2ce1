//! Flags of the transport: TLS, proxies, webhooks and connections.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use steadfast_web::Number;

use super::listen;
use crate::network::{Network, PublicUrl};

/// The transport of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransportArgs {
    /// Certificate chain in PEM; with it all ports speak TLS only. A changed file is read again
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// URL by which clients reach this server: requests for its host are accepted, and its pages
    /// are our own. Needs closed access
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// URL by which clients reach the S3 API, for presigned URLs. Needs closed access
    #[arg(long, value_name = "URL")]
    pub(crate) s3_public_url: Option<PublicUrl>,
    /// Networks of proxies whose `Forwarded` and `X-Forwarded-*` headers are believed
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Network>,
    /// Address of a port for the webhooks of providers; it serves nothing else
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub(crate) webhooks_listen: Option<SocketAddr>,
    /// Maximum connections of one client address to one port; trusted proxies are exempt, as is
    /// this machine while access is open
    #[arg(long, default_value = "256", value_name = "N")]
    pub(crate) connections_per_peer: Number<1, 1_000_000>,
    /// Seconds in which a client has to send or read something, or it is disconnected; each KiB
    /// gives it another second, up to this time
    #[arg(long, default_value = "20", value_name = "SECONDS")]
    pub(crate) client_timeout: Number<1, 86_400>,
}
