//! The S3 port: the same accept loop, serving only S3.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, Uri, header, request::Parts},
    response::Response,
};
use futures_util::StreamExt;
use steadfast_bucket::{AccessKey, BucketError};
use steadfast_core::AuditEvent;
use steadfast_s3::{Host, Permission, Refusal, S3Api, S3Use, S3WrongCredential};

use crate::{access::url_keys, facts, guard, listener::ConnectionInfo, server::Server};

/// The router of the S3 port.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    let server = server.clone();
    let Ok(buckets) = server.buckets() else { return Router::new() };
    let api = {
        let (store, seal) = (server.runtime.store().clone(), server.runtime.seal().clone());
        S3Api::with_host(buckets.clone(), store, seal, Arc::new(OfServer(server.clone())))
    };
    Router::new().fallback(async move |request: Request| -> Response {
        if !may_change_bucket(request.method(), request.uri()) {
            return answer(&server, &api, request).await;
        }
        // A client that goes away must not prevent the record of what it did.
        let (server, of_task) = (server.clone(), api.clone());
        match tokio::spawn(async move { answer(&server, &of_task, request).await }).await {
            Ok(response) => response,
            Err(_) => api.refuse(Refusal::Failed).await.map(Body::new),
        }
    })
}

/// The server as the host of its S3 API.
struct OfServer(Arc<Server>);

#[async_trait]
impl Host for OfServer {
    async fn url_key(&self, id: &str) -> Result<Option<AccessKey>, BucketError> {
        url_keys::find(&self.0, id).await
    }

    fn may_send(&self, key: &str) -> bool {
        // While access is open, nothing else has a rate either.
        self.0.is_open() || self.0.rates.check(key).is_ok()
    }
}

/// Whether a request may be one that the audit log records in any case: an unsafe one about a
/// bucket, not about a blob.
fn may_change_bucket(method: &Method, uri: &Uri) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    !is_read && !uri.path().trim_matches('/').contains('/')
}

async fn answer(server: &Server, api: &S3Api, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let connection = parts.extensions.get::<ConnectionInfo>();
    if let Some(it) = connection.filter(|it| it.is_crowded)
        && !it.slot.gets_place().await
    {
        return api.refuse(Refusal::Full).await.map(Body::new);
    }
    if facts::fetches_code(&parts.headers) {
        return api.refuse(Refusal::Code).await.map(Body::new);
    }
    // The signature of a request shows that its sender has a key, whichever way it came.
    let is_refused = server.is_open()
        && !S3Api::is_signed(&parts)
        && guard::refuse_proxies(parts.version, &parts.headers).is_err();
    if is_refused {
        return api.refuse(Refusal::Forwarded).await.map(Body::new);
    }
    if S3Api::is_form(&parts) {
        // A client that waits for "100 Continue" has sent nothing.
        if !parts.headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return api.refuse(Refusal::Form).await.map(Body::new);
    }
    let origin = Origin::of(&parts, connection);
    let slot = connection.map(|it| it.slot.clone());
    let (body, charge) = server.budget.limit_s3((&parts.method, &parts.uri), body);
    let response = api.answer(Request::from_parts(parts, body)).await.map(Body::new);
    let response = if charge.is_some_and(|it| it.was_refused()) {
        api.refuse(Refusal::Busy).await.map(Body::new)
    } else if slot.is_some_and(|it| it.was_slow()) {
        api.refuse(Refusal::Slow).await.map(Body::new)
    } else {
        response
    };
    if let Some(S3WrongCredential { code }) = response.extensions().get() {
        server.refused.note(&origin.client, code, "S3");
    }
    let Some(used) = response.extensions().get::<S3Use>().cloned() else { return response };
    let S3Use { key, operation, outcome, request_id, .. } = &used;
    server.key_uses.note(server.runtime.store(), key);
    let Origin { client, target } = &origin;
    tracing::debug!(request_id, key, operation = operation.name, target, client, outcome, "S3");
    let Some(event) = origin.event(server, used) else { return response };
    match server.runtime.audit().record(event).await {
        Ok(()) => response,
        Err(error) => {
            tracing::error!(%error, "an S3 request cannot be recorded");
            api.refuse(Refusal::Unrecorded).await.map(Body::new)
        }
    }
}

/// Reads a refused body to its end: bytes that were not read would reset the connection, and a
/// client that still writes, such as Node, would not see the response. No byte is kept, and the
/// listener limits the time.
async fn discard(body: Body) {
    const BYTES_MAX: u64 = 5 << 30;
    let (mut body, mut len) = (body.into_data_stream(), 0);
    while let Some(Ok(bytes)) = body.next().await {
        len += bytes.len() as u64;
        if BYTES_MAX < len {
            return;
        }
    }
}

/// The sender of a request and its target, for the audit log.
struct Origin {
    client: String,
    target: String,
}

impl Origin {
    fn of(parts: &Parts, connection: Option<&ConnectionInfo>) -> Self {
        let client = connection.map_or("-".into(), |it| it.client.address.to_string());
        Self { client, target: parts.uri.path().to_owned() }
    }

    /// The record of a request, if it changed a bucket or its key may not do that. The audit log
    /// has no changes of blobs: each would need a second commit. It begins when access is closed.
    fn event(self, server: &Server, used: S3Use) -> Option<AuditEvent> {
        let S3Use { key, name, operation, is_refused, outcome, request_id } = used;
        let is_change = operation.needs == Permission::Everything;
        if server.is_open() || !(is_change || is_refused) {
            return None;
        }
        let Self { client, target } = self;
        // Requests without an effect must not fill the disk. The outcome of others is a status.
        let had_no_effect = is_refused || outcome.parse::<u16>().is_err();
        let before =
            if had_no_effect { server.rates.record_refusal(Some(&key), &client)? } else { 0 };
        let action = format!("S3 {}", operation.name);
        // A list of keys to delete is answered with 200 and an error for each refused key.
        let outcome = if is_refused { "AccessDenied".into() } else { outcome };
        let (token, repeated) = (Some(key), Some(before).filter(|it| 0 < *it));
        let event = AuditEvent { token, name, repeated, request_id, ..AuditEvent::default() };
        Some(AuditEvent { client, action, target, outcome, ..event })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use axum::body::Bytes;
    use futures_util::stream;
    use steadfast_bucket::{BucketName, CorsRule, KeyScope, create_key, list_keys};
    use steadfast_core::{App, Bucket, test::TestApp};
    use steadfast_s3::presign_path;
    use steadfast_store::{Clock, SystemClock};
    use tower::ServiceExt;

    use super::*;
    use crate::{access::rate::Rates, location::Location, server::Policy};

    /// The headers of a preflight.
    const PREFLIGHT: [(&str, &str); 2] =
        [("origin", "https://app.example"), ("access-control-request-method", "PUT")];

    struct Port {
        program: TestApp,
        server: Arc<Server>,
        router: Router,
    }

    impl Port {
        async fn open() -> Self {
            Self::with_rate(0).await
        }

        async fn with_rate(per_second: u32) -> Self {
            let program = App::new("host").bucket(Bucket::named("photos")).test().await.unwrap();
            let runtime = (*program).clone();
            let mut server = Server::new(runtime, Location::Host, Policy::Loopback);
            server.rates = Rates::per_second(per_second);
            let server = Arc::new(server);
            let router = router(&server);
            Self { program, server, router }
        }

        async fn key(&self, scope: KeyScope) -> AccessKey {
            let (store, seal) = (self.program.store(), self.program.seal());
            create_key(&**store, seal, scope, None).await.unwrap()
        }

        async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
            let mut request =
                Request::builder().method(method).uri(uri).header("host", "localhost");
            request = request.header("content-length", "0");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Body::empty()).unwrap();
            self.router.clone().oneshot(request).await.unwrap().status().as_u16()
        }

        /// Sends a request that is signed with a key.
        async fn ask(&self, key: &AccessKey, method: &str, path: &str) -> u16 {
            self.send(method, &signed(key, method, path), &[]).await
        }

        /// The records of the audit log, the oldest first.
        async fn records(&self) -> Vec<AuditEvent> {
            let records = self.program.audit().list(None, 99).await.unwrap();
            records.into_iter().rev().map(|it| it.event).collect()
        }
    }

    fn signed(key: &AccessKey, method: &str, path: &str) -> String {
        let (hour, now) = (Duration::from_hours(1), SystemClock.now());
        let url = presign_path("http://localhost", key, (method, path), hour, now).unwrap();
        url.strip_prefix("http://localhost").unwrap().to_owned()
    }

    #[tokio::test]
    async fn changes_of_buckets_and_refusals_are_recorded_with_the_id_of_the_key() {
        let port = Port::open().await;
        let all = port.key(KeyScope::default()).await;
        let name = Some("reader".to_owned());
        let reader = port.key(KeyScope { name, read_only: true, ..KeyScope::default() }).await;
        assert_eq!(port.ask(&all, "PUT", "/before").await, 200);
        assert!(port.records().await.is_empty(), "access is open");
        port.server.transport.close();
        for (method, path, status) in [
            ("PUT", "/fresh", 200),
            ("PUT", "/photos/a", 200),
            ("GET", "/photos/a", 200),
            ("DELETE", "/photos/a", 204),
            ("DELETE", "/missing", 404),
        ] {
            assert_eq!(port.ask(&all, method, path).await, status, "{method} {path}");
        }
        assert_eq!(port.ask(&reader, "PUT", "/photos/b").await, 403);
        // A request without a valid signature has no principal.
        assert_eq!(port.send("PUT", "/photos/b", &[]).await, 403);
        assert_eq!(port.server.refused.count(), 0);
        let forged = signed(&all, "PUT", "/photos/b").replace("/photos/b", "/photos/c");
        assert_eq!(port.send("PUT", &forged, &[]).await, 403);
        let unknown = AccessKey { id: "SFUNKNOWN".into(), ..all.clone() };
        assert_eq!(port.ask(&unknown, "PUT", "/photos/b").await, 403);
        assert_eq!(port.server.refused.count(), 2, "wrong credentials are counted");
        let records = port.records().await;
        let shown: Vec<_> = records
            .iter()
            .map(|it| (it.token.as_deref().unwrap(), &*it.action, &*it.target, &*it.outcome))
            .collect();
        let expected = [
            (&*all.id, "S3 CreateBucket", "/fresh", "200"),
            (&*all.id, "S3 DeleteBucket", "/missing", "NoSuchBucket"),
            (&*reader.id, "S3 PutObject", "/photos/b", "AccessDenied"),
        ];
        assert_eq!(shown, expected);
        assert!(records.iter().all(|it| !it.request_id.is_empty()), "{records:?}");
        assert_eq!((&records[0].name, records[2].name.as_deref()), (&None, Some("reader")));
        for _ in 0..30 {
            assert_eq!(port.ask(&reader, "PUT", "/photos/b").await, 403);
        }
        let count = port.records().await.len();
        assert!((20..30).contains(&count), "refusals have a budget: {count}");
    }

    #[tokio::test]
    async fn a_blob_is_written_with_the_same_commits_while_access_is_closed() {
        let port = Port::open().await;
        let key = port.key(KeyScope::default()).await;
        let store = port.program.store();
        let last_use = async || list_keys(&**store, None, 9).await.unwrap()[0].last_used_at;
        assert_eq!(last_use().await, None);
        assert_eq!(port.ask(&key, "GET", "/photos").await, 200);
        // A task of its own writes it, at most once a minute.
        while last_use().await.is_none() {
            tokio::task::yield_now().await;
        }
        let commits = async |path: &str| {
            let before = port.program.store().activity().commits;
            assert_eq!(port.ask(&key, "PUT", path).await, 200);
            port.program.store().activity().commits - before
        };
        let open = commits("/photos/a").await;
        port.server.transport.close();
        assert_eq!(commits("/photos/b").await, open);
    }

    #[tokio::test]
    async fn a_key_beyond_its_rate_is_refused_and_others_are_not() {
        let port = Port::with_rate(2).await;
        let (one, other) =
            (port.key(KeyScope::default()).await, port.key(KeyScope::default()).await);
        for _ in 0..20 {
            assert_eq!(port.ask(&one, "PUT", "/photos/a").await, 200, "access is open");
        }
        port.server.transport.close();
        let mut answers = Vec::new();
        for _ in 0..20 {
            answers.push(port.ask(&one, "GET", "/photos/a").await);
            // Its id is no secret: without its secret nobody uses up its rate.
            let forged = signed(&other, "GET", "/photos/a").replace("/photos/a", "/photos/b");
            assert_eq!(port.send("GET", &forged, &[]).await, 403);
        }
        assert_eq!(answers[..4], [200; 4]);
        assert!(answers[4..].contains(&503), "{answers:?}");
        assert_eq!(port.ask(&other, "GET", "/photos/a").await, 200);
    }

    #[tokio::test]
    async fn the_body_of_a_refused_form_is_read_to_its_end() {
        let port = Port::open().await;
        let left = Arc::new(AtomicUsize::new(40));
        let (count, piece) = (left.clone(), Bytes::from(vec![0; 1 << 20]));
        let pieces = stream::iter((0..40).map(move |_| {
            count.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, Infallible>(piece.clone())
        }));
        let request = Request::post("/photos")
            .header("host", "localhost")
            .header("content-type", "multipart/form-data; boundary=x")
            .body(Body::from_stream(pieces))
            .unwrap();
        let answer = port.router.clone().oneshot(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), left.load(Ordering::Relaxed)), (501, 0));
    }

    #[tokio::test]
    async fn an_unsigned_request_through_a_proxy_is_refused_while_access_is_open() {
        let port = Port::open().await;
        let key = port.key(KeyScope::default()).await;
        let rule = CorsRule {
            id: "app".into(),
            origins: vec!["https://app.example".into()],
            methods: vec!["PUT".into()],
            ..CorsRule::default()
        };
        let photos = BucketName::new("photos").unwrap();
        port.server.buckets().unwrap().put_cors(&photos, rule).await.unwrap();
        let proxy = [("x-forwarded-for", "203.0.113.9")];
        for headers in [&proxy[..], &[("forwarded", "for=203.0.113.9")], &[("via", "1.1 gate")]] {
            assert_eq!(port.send("GET", "/photos", headers).await, 403, "{headers:?}");
            assert_eq!(port.send("OPTIONS", "/photos/a", headers).await, 403, "{headers:?}");
            let preflight = [&PREFLIGHT[..], headers].concat();
            assert_eq!(port.send("OPTIONS", "/photos/a", &preflight).await, 403, "{headers:?}");
            // Preflights of URLs with a signature are answered, and it is not verified.
            let put = "/photos/a?X-Amz-Signature=0";
            assert_eq!(port.send("OPTIONS", put, &preflight).await, 200, "{headers:?}");
            assert_eq!(port.send("PUT", put, headers).await / 100, 4, "{headers:?}");
            let put = signed(&key, "PUT", "/photos/a");
            assert_eq!(port.send("PUT", &put, headers).await, 200, "{headers:?}");
        }
        // Closed access believes in signatures only.
        port.server.transport.close();
        assert_eq!(port.send("GET", "/photos", &proxy).await, 403);
        assert_eq!(port.send("OPTIONS", "/photos/a", &proxy).await, 501);
        let preflight = [&PREFLIGHT[..], &proxy].concat();
        assert_eq!(port.send("OPTIONS", "/photos/a", &preflight).await, 200);
        assert_eq!(port.send("OPTIONS", "/others/a", &preflight).await, 403);
        assert!(port.records().await.is_empty(), "a preflight changes nothing");
    }
}
