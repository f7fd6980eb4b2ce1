//! How services are asked over HTTP.

use std::{sync::Arc, time::Duration};

use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

/// Asks a service that gets a secret: nobody else does, so redirects are not followed.
pub(crate) fn agent(base_url: &str, timeout: Duration) -> Agent {
    let mut config = Agent::config_builder()
        .tls_config(tls())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_global(Some(timeout));
    if base_url.starts_with("http://") {
        // A gateway on this machine or beside it, where no proxy can reach it.
        config = config.proxy(None);
    }
    config.build().into()
}

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
