//! Encrypted connections, and the certificates that were shown on the way.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, IpAddr, ServerName, UnixTime},
};
use steadfast_egress::Target;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{certificate::summary, failed};
use crate::envelope::{Certificate, ProbeError, ProbeErrorCode, Tls};

/// The certificates to trust.
#[derive(Clone, Debug)]
pub(super) struct Trust {
    provider: Arc<CryptoProvider>,
    /// Nothing, if there is nobody to believe.
    verifier: Option<Arc<WebPkiServerVerifier>>,
}

impl Trust {
    /// Those that the system trusts.
    pub(super) fn system() -> Self {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "some certificates of the system cannot be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        Self::roots(roots)
    }

    pub(super) fn roots(roots: RootCertStore) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        Self { provider, verifier: builder.build().ok() }
    }
}

/// A verifier that believes what another one believes, and remembers what it was shown.
#[derive(Debug)]
struct Witness {
    inner: Arc<WebPkiServerVerifier>,
    shown: Mutex<Vec<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let all = std::iter::once(end_entity).chain(intermediates);
        let all = all.map(|it| it.clone().into_owned()).collect();
        *self.shown.lock() = all;
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

impl Witness {
    fn certificates(&self) -> Vec<Certificate> {
        summary(&self.shown.lock())
    }
}

/// Encrypts a connection. A failure carries the certificates, if it came to them.
pub(super) async fn connect(
    trust: &Trust,
    target: &Target,
    stream: TcpStream,
) -> Result<(TlsStream<TcpStream>, Tls), ProbeError> {
    let broken = |message: String| failed(ProbeErrorCode::TlsError, message);
    let Some(inner) = &trust.verifier else {
        let message = "the system has no certificates to believe; install ca-certificates";
        return Err(broken(message.into()));
    };
    let witness = Arc::new(Witness { inner: Arc::clone(inner), shown: Mutex::default() });
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&trust.provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(witness.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session shows no certificates, and is faster than what a new visitor sees.
    config.resumption = Resumption::disabled();
    let name = match target.literal() {
        Some(address) => ServerName::IpAddress(IpAddr::from(address)),
        None => ServerName::try_from(target.host()).map_err(|error| broken(error.to_string()))?,
    };
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.map_err(|error| {
        let mut failure = broken(format!("no encrypted connection: {}", plain(&error)));
        failure.certificates = witness.certificates();
        failure
    })?;
    let (_, connection) = stream.get_ref();
    let version = connection.protocol_version().and_then(|it| it.as_str().map(str::to_owned));
    let cipher = connection.negotiated_cipher_suite();
    let cipher = cipher.and_then(|it| it.suite().as_str().map(str::to_owned));
    let tls = Tls {
        version: version.unwrap_or_default().replace('_', "."),
        cipher: cipher.unwrap_or_default(),
        certificates: witness.certificates(),
    };
    Ok((stream, tls))
}

/// The usual faults in words; all others as the library says them.
fn plain(error: &std::io::Error) -> String {
    use CertificateError as Fault;
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(fault)) = inner else { return error.to_string() };
    if matches!(fault, Fault::Expired | Fault::ExpiredContext { .. }) {
        "the certificate has expired".to_owned()
    } else if matches!(fault, Fault::NotValidYet | Fault::NotValidYetContext { .. }) {
        "the certificate is not valid yet".to_owned()
    } else if matches!(fault, Fault::NotValidForName | Fault::NotValidForNameContext { .. }) {
        "the certificate is for another host".to_owned()
    } else if matches!(fault, Fault::UnknownIssuer) {
        "nobody known has issued the certificate".to_owned()
    } else {
        error.to_string()
    }
}
