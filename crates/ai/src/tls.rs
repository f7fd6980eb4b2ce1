//! TLS for all clients here.

use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// TLS that trusts whom the system trusts: a company's own proxy is one of them.
pub(crate) fn tls() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some certificates of the system cannot be read");
    }
    let own = |it: &[u8]| Certificate::from_der(it).to_owned();
    let roots: Vec<Certificate> = found.certs.iter().map(|it| own(it)).collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}
