use std::{convert::Infallible, sync::Arc};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use steadfast_drift::envelope::SignalEnvelope;
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc::{Receiver, channel},
};

use super::keeper::{Cage, Keeper, cage, failure, patient, raw, response, says_at};

/// A certificate that vouches for itself, and a server that shows it.
fn identity(
    name: &str,
    alpn: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> (ServerConfig, CertificateDer<'static>) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
    (config, certificate)
}

async fn hello(config: ServerConfig) -> Cage {
    cage(443, Some(config), |_, mut visitor| async move {
        let _ = visitor.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
        let _ = visitor.shutdown().await;
    })
    .await
}

async fn visited(cage: &Cage, trusted: Option<CertificateDer<'static>>) -> SignalEnvelope {
    let mut roots = RootCertStore::empty();
    // Somebody is trusted in any case: nobody at all is another failure.
    roots.add(identity("other.example", &[], |_| {}).1).unwrap();
    roots.add_parsable_certificates(trusted);
    Keeper::trusting(&[cage], patient(), roots).probe("https://zoo.example/").await
}

#[tokio::test]
async fn an_encrypted_answer_shows_version_cipher_and_certificate() {
    let (config, certificate) = identity("zoo.example", &["http/1.1"], |it| {
        it.not_before = date_time_ymd(2020, 1, 1);
        it.not_after = date_time_ymd(2120, 1, 1);
    });
    let cage = hello(config).await;
    let envelope = visited(&cage, Some(certificate)).await;
    let cf = envelope.cf.clone().unwrap();
    assert_eq!(cf.tls_version.as_deref(), Some("TLSv1.3"));
    let probe = response(envelope);
    let hop = &probe.hops[0];
    let tls = hop.tls.as_ref().unwrap();
    assert!(tls.cipher.starts_with("TLS13_") && hop.timing.tls_ms.is_some(), "{tls:?}");
    let leaf = &tls.certificates[0];
    assert_eq!(leaf.names, ["zoo.example"]);
    assert_eq!(leaf.not_before, "2020-01-01T00:00:00Z");
    assert_eq!(leaf.not_after, "2120-01-01T00:00:00Z");
    assert_eq!((leaf.key.as_str(), leaf.fingerprint.len()), ("EC 256", 64));
    assert!(leaf.subject.contains("CN=zoo.example") && leaf.issuer == leaf.subject, "{leaf:?}");
}

#[tokio::test]
async fn a_certificate_nobody_vouches_for_is_a_tls_error_that_shows_it() {
    let (config, _) = identity("zoo.example", &[], |_| {});
    let failed = failure(visited(&hello(config).await, None).await);
    assert_eq!(failed.error.code.as_str(), "tls_error");
    assert!(failed.error.message.contains("nobody known"), "{}", failed.error.message);
    assert_eq!(failed.error.certificates[0].names, ["zoo.example"]);
}

#[tokio::test]
async fn expired_early_and_foreign_certificates_are_told_apart() {
    type Change = fn(&mut CertificateParams);
    let cases: [(&str, Change, &str); 3] = [
        ("zoo.example", |it| it.not_after = date_time_ymd(2020, 1, 1), "has expired"),
        ("zoo.example", |it| it.not_before = date_time_ymd(2090, 1, 1), "not valid yet"),
        ("cage.example", |_| {}, "for another host"),
    ];
    for (name, change, expected) in cases {
        let (config, certificate) = identity(name, &[], |it| {
            it.not_before = date_time_ymd(2019, 1, 1);
            it.not_after = date_time_ymd(2120, 1, 1);
            change(it);
        });
        let failed = failure(visited(&hello(config).await, Some(certificate)).await);
        assert_eq!(failed.error.code.as_str(), "tls_error");
        assert!(failed.error.message.contains(expected), "{}", failed.error.message);
        assert_eq!(failed.error.certificates[0].names, [name]);
        assert!(!failed.error.certificates[0].not_after.is_empty());
    }
}

#[tokio::test]
async fn plain_text_where_tls_should_be_is_a_tls_error() {
    let cage = cage(443, None, |_, _| async {}).await;
    let keeper = Keeper::new(&[&cage], patient());
    let failed = failure(keeper.probe("https://zoo.example/").await);
    assert_eq!(failed.error.code.as_str(), "tls_error");
    assert!(failed.error.message.contains("install ca-certificates"));
    let listener = says_at(443, "220 smtp.zoo.example ready\r\n").await;
    let failed = failure(visited(&listener, None).await);
    assert_eq!(failed.error.code.as_str(), "tls_error");
    assert!(failed.error.certificates.is_empty());
}

/// A server of HTTP/2 with a body of this size; it says when a connection has ended.
async fn modern(len: usize) -> (Cage, CertificateDer<'static>, Receiver<()>) {
    let (config, certificate) = identity("zoo.example", &["h2", "http/1.1"], |_| {});
    let (left, gone) = channel(1);
    let cage = raw(443, Some(config), move |visitor| {
        let left = left.clone();
        async move {
            let service = service_fn(move |request: Request<Incoming>| async move {
                assert_eq!(request.uri().authority().unwrap().as_str(), "zoo.example");
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; len]))))
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(visitor), service).await;
            let _ = left.send(()).await;
        }
    })
    .await;
    (cage, certificate, gone)
}

#[tokio::test]
async fn a_long_body_of_http2_is_read_to_the_limit_and_hung_up_on() {
    let (cage, certificate, mut gone) = modern(8 << 20).await;
    let probe = response(visited(&cage, Some(certificate)).await);
    assert_eq!(probe.response.hashed_bytes, Some(1 << 20));
    assert_eq!(gone.recv().await, Some(()));
}

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered() {
    let (cage, certificate, _gone) = modern(5).await;
    let envelope = visited(&cage, Some(certificate)).await;
    assert_eq!(envelope.cf.as_ref().unwrap().http_protocol.as_deref(), Some("HTTP/2"));
    let probe = response(envelope);
    assert_eq!(probe.hops[0].protocol, "HTTP/2");
    assert_eq!(probe.response.content_length, Some(5));
    assert!(probe.response.body_hash.is_some());
}
