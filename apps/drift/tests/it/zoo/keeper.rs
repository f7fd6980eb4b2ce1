//! Servers to probe, and a prober that reaches nothing but them.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustls::{RootCertStore, ServerConfig};
use steadfast_drift::{
    envelope::{ProbeFailure, ProbeResponse, ProbeResult, Side, SignalEnvelope},
    probe::{ProbeOptions, ProbeRequest, Prober},
};
use steadfast_egress::{Gate, Policy};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::doubles::{Answers, Recorder};

/// Where `zoo.example` is.
pub(crate) const ZOO: &str = "8.8.8.8";

pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection to a server, after its request was read.
pub(crate) type Visitor = Box<dyn Wire>;

/// A server of this machine that listens on a port of `zoo.example`.
pub(crate) struct Cage {
    port: u16,
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Cage {
    /// All request heads so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Starts a server that gets each connection as it is.
pub(crate) async fn raw<F, Done>(port: u16, tls: Option<ServerConfig>, handle: F) -> Cage
where
    F: Fn(Visitor) -> Done + Send + Sync + 'static,
    Done: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = tls.map(|it| TlsAcceptor::from(Arc::new(it)));
    let handle = Arc::new(handle);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, handle) = (acceptor.clone(), handle.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => handle(Box::new(stream)).await,
                    Some(it) => {
                        if let Ok(stream) = it.accept(stream).await {
                            handle(Box::new(stream)).await;
                        }
                    }
                }
            });
        }
    });
    Cage { port, address, heads: Arc::default() }
}

/// Starts a server that gets each request on a connection of its own.
pub(crate) async fn cage<F, Done>(port: u16, tls: Option<ServerConfig>, handle: F) -> Cage
where
    F: Fn(String, Visitor) -> Done + Send + Sync + 'static,
    Done: Future<Output = ()> + Send,
{
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let handle = Arc::new(handle);
    let cage = raw(port, tls, move |mut visitor| {
        let (handle, seen) = (handle.clone(), seen.clone());
        async move {
            let Some(head) = read_head(&mut visitor).await else { return };
            seen.lock().unwrap().push(head.clone());
            handle(head, visitor).await;
        }
    })
    .await;
    Cage { heads, ..cage }
}

/// A server that answers every request with these bytes and hangs up.
pub(crate) async fn says(bytes: impl Into<Vec<u8>>) -> Cage {
    let bytes = Arc::new(bytes.into());
    cage(80, None, move |_, mut visitor| {
        let bytes = bytes.clone();
        async move {
            // It may have gone already.
            let _ = visitor.write_all(&bytes).await;
            let _ = visitor.shutdown().await;
        }
    })
    .await
}

/// A server that speaks first.
pub(crate) async fn says_at(port: u16, text: &'static str) -> Cage {
    raw(port, None, move |mut visitor| async move {
        let _ = visitor.write_all(text.as_bytes()).await;
        let _ = visitor.read_u8().await;
    })
    .await
}

async fn read_head(visitor: &mut Visitor) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(visitor.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// A prober, and all that it may reach.
pub(crate) struct Keeper {
    pub(crate) recorder: Arc<Recorder>,
    prober: Prober,
}

impl Keeper {
    pub(crate) fn new(cages: &[&Cage], options: ProbeOptions) -> Self {
        Self::trusting(cages, options, RootCertStore::empty())
    }

    pub(crate) fn trusting(cages: &[&Cage], options: ProbeOptions, roots: RootCertStore) -> Self {
        let answers = Answers::new()
            .with("zoo.example", &[ZOO])
            .with("inner.example", &["10.0.0.1"])
            .with("mixed.example", &[ZOO, "127.0.0.1"]);
        let route = |recorder: Recorder, cage: &&Cage| {
            recorder.route(SocketAddr::new(ZOO.parse().unwrap(), cage.port), cage.address)
        };
        let recorder = Arc::new(cages.iter().fold(Recorder::new(), route));
        let gate = Gate::with(Policy::public_only(), Arc::new(answers), recorder.clone());
        Self { recorder, prober: Prober::with_roots(gate, options, roots) }
    }

    pub(crate) async fn probe(&self, url: &str) -> SignalEnvelope {
        let (comparison_id, side, url) = ("c".to_owned(), Side::Right, url.to_owned());
        let now_ms = 1_763_208_000_123;
        self.prober.probe(&ProbeRequest { comparison_id, side, url, now_ms }).await
    }
}

/// Options that give a loaded machine time.
pub(crate) fn patient() -> ProbeOptions {
    ProbeOptions { budget: Duration::from_secs(60), ..ProbeOptions::default() }
}

/// Options for servers that never come to an end.
pub(crate) fn hurried() -> ProbeOptions {
    ProbeOptions { budget: Duration::from_millis(500), ..ProbeOptions::default() }
}

/// Probes one server.
pub(crate) async fn probed(cage: &Cage, options: ProbeOptions) -> SignalEnvelope {
    Keeper::new(&[cage], options).probe("http://zoo.example/").await
}

pub(crate) fn response(envelope: SignalEnvelope) -> ProbeResponse {
    match envelope.result {
        ProbeResult::Response(it) => *it,
        ProbeResult::Failure(it) => panic!("no response: {it:?}"),
    }
}

pub(crate) fn failure(envelope: SignalEnvelope) -> ProbeFailure {
    match envelope.result {
        ProbeResult::Failure(it) => *it,
        ProbeResult::Response(it) => panic!("a response: {it:?}"),
    }
}

/// The code of the failure.
pub(crate) fn code(envelope: SignalEnvelope) -> &'static str {
    failure(envelope).error.code.as_str()
}
