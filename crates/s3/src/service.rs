//! Handles one request: checks it, runs it in its own task, and adds its id.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header, request::Parts};
use s3s::{
    Body, S3Error, StdError,
    config::{S3Config, StaticConfigProvider},
    s3_error,
    service::{S3Service, S3ServiceBuilder},
};
use steadfast_bucket::Buckets;
use steadfast_store::{Entropy, Seal, SeededEntropy, Store};

use crate::{
    access::{Host, Keys, Permissions, Signer, with_signer},
    chunks,
    cors::CorsRequest,
    errors,
    guard::{self, Signature},
    operations::{S3Operations, ServedOperation},
    unsupported,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// Stored content may be shown, but runs no script and loads nothing but images.
const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; \
                       media-src 'self'; sandbox";

/// Serves the S3 API over buckets. Cheap to clone.
#[derive(Clone)]
pub struct S3Api {
    service: S3Service,
    buckets: Buckets,
    ids: Arc<RequestIds>,
}

impl S3Api {
    /// Serves these buckets; `store` holds their access keys, and `seal` opens them.
    pub fn new(buckets: Buckets, store: Arc<dyn Store>, seal: Seal) -> Self {
        Self::build(buckets, store, seal, None)
    }

    /// The same, with the keys and the limits of a host.
    pub fn with_host(
        buckets: Buckets,
        store: Arc<dyn Store>,
        seal: Seal,
        host: Arc<dyn Host>,
    ) -> Self {
        Self::build(buckets, store, seal, Some(host))
    }

    fn build(
        buckets: Buckets,
        store: Arc<dyn Store>,
        seal: Seal,
        host: Option<Arc<dyn Host>>,
    ) -> Self {
        let mut config = S3Config::default();
        config.xml_max_body_size = guard::XML_BYTES_MAX;
        // Forms are refused earlier; this limit is the second check.
        config.post_object_max_file_size = 1;
        config.form_max_field_size = 1;
        config.form_max_fields_size = 1;
        config.form_max_parts = 1;
        let account = buckets.account().to_owned();
        let mut builder = S3ServiceBuilder::new(S3Operations { buckets: buckets.clone() });
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        builder.set_auth(Keys::new(store, seal, host.clone()));
        builder.set_access(Permissions { account, host });
        Self { service: builder.build(), buckets, ids: Arc::new(RequestIds::new()) }
    }

    /// Handles a request. It runs to completion even if the client disconnects; an incomplete body
    /// ends it. The extensions of the response have an [`S3Use`] if the signature was right, and an
    /// [`S3WrongCredential`] if it was wrong. The rules of the bucket answer preflights, which
    /// browsers do not sign.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        StdError: From<B::Error>,
    {
        let id = self.ids.next();
        let page = CorsRequest::of(request.method(), request.uri(), request.headers());
        if let Some(answer) = page.preflight(&self.buckets).await {
            return named(answer, &id).await;
        }
        let expects = request.headers().contains_key(header::EXPECT);
        let is_empty = request.body().is_end_stream();
        let ignored_acl = unsupported::ignored_acl(request.uri(), request.headers());
        let (answer, signer) = match self.call(request).await {
            Ok(answered) => answered,
            Err(error) => (errors::response(error), None),
        };
        let mut answer = named(answer, &id).await;
        page.add_headers(&self.buckets, &mut answer).await;
        let code = answer.extensions_mut().remove::<errors::ErrorCode>().map(|it| it.0);
        if let Some(Signer { key, name, operation, is_refused }) = signer {
            let outcome = code.unwrap_or_else(|| answer.status().as_u16().to_string());
            let used = S3Use { key, name, operation, is_refused, outcome, request_id: id };
            answer.extensions_mut().insert(used);
        } else if let Some(code) = code.filter(|it| WRONG_CREDENTIALS.contains(&&**it)) {
            answer.extensions_mut().insert(S3WrongCredential { code });
        }
        if let Some(warning) = ignored_acl
            && answer.status().is_success()
        {
            answer.headers_mut().insert(header::WARNING, warning);
        }
        // A client that waits for "100 Continue" and gets the final response must not reuse the
        // connection: boto3 would read the next response as part of this one.
        if expects && (is_empty || !answer.status().is_success()) {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// The response to a request that the server refuses.
    pub async fn refuse(&self, why: Refusal) -> Response<Body> {
        let error = match why {
            Refusal::Slow => s3_error!(RequestTimeout, "the body did not arrive in time"),
            Refusal::Busy => {
                s3_error!(SlowDown, "memory for request bodies is exhausted; retry later")
            }
            Refusal::Full => s3_error!(SlowDown, "all places for requests are taken; retry later"),
            Refusal::Forwarded => s3_error!(
                AccessDenied,
                "the request came through a proxy and is not signed, but access is open: only \
                 this machine may call; sign it with an access key"
            ),
            Refusal::Failed => {
                s3_error!(InternalError, "the request met a bug; the log says where")
            }
            Refusal::Unrecorded => s3_error!(
                ServiceUnavailable,
                "the audit log cannot be written; the request may have had its effect"
            ),
            Refusal::Form => guard::no_forms(),
            Refusal::Code => {
                s3_error!(AccessDenied, "a stored file is never a script or a style of a page")
            }
        };
        refusal(error, &self.ids.next()).await
    }

    /// The response to a request that came over plain HTTP and must not; `text` has the next step.
    pub async fn refuse_plain_http(text: &'static str) -> Response<Body> {
        let error = s3_error!(InvalidRequest, "{text}");
        refusal(error, &RequestIds::new().next()).await
    }

    /// Whether a request claims to be signed. If its signature is wrong, it is refused later.
    pub fn is_signed(request: &Parts) -> bool {
        Signature::of(request) != Signature::Missing
    }

    /// Whether a request posts an HTML form: it is refused in any case.
    pub fn is_form(request: &Parts) -> bool {
        guard::is_form(request)
    }

    async fn call<B>(
        &self,
        request: Request<B>,
    ) -> Result<(Response<Body>, Option<Signer>), S3Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        StdError: From<B::Error>,
    {
        let (mut parts, body) = request.into_parts();
        let chunks = guard::check(&mut parts)?;
        let body = chunks::checked(Body::http_body_unsync(body), chunks);
        let (service, request) = (self.service.clone(), Request::from_parts(parts, body));
        match tokio::spawn(with_signer(async move { service.call(request).await })).await {
            Ok((Ok(answer), signer)) => Ok((answer, signer)),
            Ok((Err(error), _)) => {
                tracing::error!(?error, "an answer could not be written");
                Err(s3_error!(InternalError, "the answer could not be written; the log says why"))
            }
            Err(error) => {
                tracing::error!(%error, "a request met a bug");
                Err(s3_error!(InternalError, "the request met a bug; the log says where"))
            }
        }
    }
}

/// Reasons to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The body did not arrive in time.
    Slow,
    /// No memory is left for the body.
    Busy,
    /// All places for requests are taken.
    Full,
    /// An unsigned request came through a proxy while access is open.
    Forwarded,
    /// The audit log cannot be written.
    Unrecorded,
    /// The request met a bug.
    Failed,
    /// The request posts an HTML form.
    Form,
    /// A browser would run the blob as a script or apply it as a style.
    Code,
}

/// The use of an access key by one request, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Use {
    /// The id of the access key.
    pub key: String,
    /// Its name.
    pub name: Option<String>,
    /// The operation.
    pub operation: &'static ServedOperation,
    /// Whether the scope of the key refused the request, or a part of it.
    pub is_refused: bool,
    /// The code of the error, or the status of the response.
    pub outcome: String,
    /// The id of the request.
    pub request_id: String,
}

/// A request with an unknown access key or a wrong signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3WrongCredential {
    /// The code of the error.
    pub code: String,
}

const WRONG_CREDENTIALS: [&str; 2] = ["InvalidAccessKeyId", "SignatureDoesNotMatch"];

/// The response to a refused request, which ends its connection.
async fn refusal(error: S3Error, id: &str) -> Response<Body> {
    let mut answer = named(errors::response(error), id).await;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Adds the headers that every response has.
async fn named(answer: Response<Body>, id: &str) -> Response<Body> {
    let mut answer = errors::explained(answer, id).await;
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::SERVER, "Steadfast"),
        // A browser may show a blob of a stranger, and do nothing else with it.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, SANDBOX),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    answer
}

/// Makes request ids, unique across processes.
struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    fn new() -> Self {
        Self { start: SeededEntropy::from_system().next(), count: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        format!("{:016X}-{}", self.start, self.count.fetch_add(1, Ordering::Relaxed))
    }
}
