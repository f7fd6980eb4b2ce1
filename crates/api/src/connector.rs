//! Connects to a program over TCP, and over TLS if its URL begins with `https://`.

use std::{
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Uri, uri::Scheme};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OnceCell,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};
use tower::Service;

/// A server that does not accept a connection within this time is unreachable. A TLS handshake has
/// the same time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time after which a connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    /// Trusted besides those of the system.
    authorities: Arc<[CertificateDer<'static>]>,
    /// Made for the first https connection: reading the roots of the system takes time.
    tls: Arc<OnceCell<TlsConnector>>,
}

impl Connector {
    /// Trusts the authorities of the system, and these.
    pub(crate) fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        // A host without power answers nothing: probes end its connections after about a minute.
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE / 3));
        tcp.set_keepalive_retries(Some(3));
        Self { tcp, authorities: authorities.into(), tls: Arc::default() }
    }

    /// Begins TLS with the host of the URL.
    async fn secure(&self, uri: &Uri, tcp: TcpStream) -> Result<TlsStream<TcpStream>, BoxError> {
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())?;
        let authorities = self.authorities.clone();
        let make = async || -> Result<TlsConnector, BoxError> {
            let config = tokio::task::spawn_blocking(move || config(&authorities)).await??;
            Ok(TlsConnector::from(Arc::new(config)))
        };
        let tls = self.tls.get_or_try_init(make).await?;
        match tokio::time::timeout(CONNECT_TIMEOUT, tls.connect(name, tcp)).await {
            Ok(connected) => connected.map_err(explain),
            Err(_) => Err("the TLS handshake took longer than 5 seconds".into()),
        }
    }
}

/// Reads the certificates of a file.
pub(crate) fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let refused = |error: String| format!("{} cannot be used: {error}", file.display());
    let found =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| refused(error.to_string()))?;
    if found.is_empty() {
        return Err(refused("it has no certificate in PEM".into()));
    }
    Ok(found)
}

fn config(authorities: &[CertificateDer<'static>]) -> Result<ClientConfig, BoxError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    if roots.is_empty() {
        return Err("this machine has no root certificates; name some with --ca FILE".into());
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Says what to do about a failed handshake.
fn explain(error: io::Error) -> BoxError {
    let cause = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    let advice = match cause {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "; a private authority needs --ca FILE"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "; the port does not speak TLS: write http:// in the URL"
        }
        _ => "",
    };
    format!("TLS: {error}{advice}").into()
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.tcp.call(uri.clone());
        let connector = self.clone();
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            let stream = match uri.scheme() == Some(&Scheme::HTTPS) {
                true => Stream::Tls(Box::new(connector.secure(&uri, tcp).await?)),
                false => Stream::Plain(tcp),
            };
            Ok(TokioIo::new(stream))
        })
    }
}

/// A connection to a program.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of the stream inside.
macro_rules! inner {
    ($stream:expr, $method:ident $(, $argument:expr)*) => {
        match $stream.get_mut() {
            Stream::Plain(it) => Pin::new(it).$method($($argument),*),
            Stream::Tls(it) => Pin::new(it).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self, poll_write, context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, poll_write_vectored, context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(it) => it.is_write_vectored(),
            Stream::Tls(it) => it.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, poll_shutdown, context)
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Stream::Plain(it) => it.connected(),
            Stream::Tls(it) => it.get_ref().0.connected(),
        }
    }
}
