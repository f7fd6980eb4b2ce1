//! Memory budget of request bodies that are buffered as a whole.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{Method, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use steadfast_api::Code;
use steadfast_web::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of all bodies in bytes.
const BYTES_MAX: usize = 256 << 20;

/// Maximum size in bytes of all bodies of requests without a credential while access is closed.
/// Other callers have a budget of their own, which those requests cannot use up.
pub(crate) const ANONYMOUS_BYTES_MAX: usize = 16 << 20;

/// Bodies of at most this size need no budget: there is one per connection, and a login among them
/// must not be refused because others send large bodies.
const SMALL_BYTES_MAX: u64 = 4 << 10;

/// The remaining memory.
#[derive(Clone)]
pub(crate) struct Budget {
    left: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(BYTES_MAX)
    }
}

impl Budget {
    /// A budget of this size.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes)) }
    }

    /// Takes memory for the body of a request as it arrives.
    fn charge(&self, request: Request) -> (Request, Charge) {
        let charge = Charge::default();
        let (left, to) = (self.left.clone(), charge.clone());
        (request.map(|body| Body::new(ChargedBody { body, left, charge: to })), charge)
    }
}

/// Handles a request whose body is buffered. Its memory is released with the response.
pub(crate) async fn check(budget: &Budget, request: Request, next: Next) -> Response {
    let body = request.body();
    let is_small = body.size_hint().upper().is_some_and(|it| it <= SMALL_BYTES_MAX);
    if is_small || body.is_end_stream() {
        return next.run(request).await;
    }
    let (request, charge) = budget.charge(request);
    let response = next.run(request).await;
    if charge.was_refused() {
        let detail = "request bodies use all of their memory limit; retry later";
        return Problem::of(Code::Busy, detail).into_response();
    }
    response
}

/// The same for S3, which buffers only XML documents; `None` if no memory is left.
pub(crate) async fn check_s3(
    budget: &Budget,
    request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Option<Response> {
    if !is_document(request.method(), request.uri()) {
        return Some(answer(request).await);
    }
    let (request, charge) = budget.charge(request);
    let response = answer(request).await;
    (!charge.was_refused()).then_some(response)
}

/// Whether the body is a document about a bucket or an object, like `PUT /b?lifecycle`, and not the
/// content of an object.
fn is_document(method: &Method, uri: &Uri) -> bool {
    let has_key = uri.path().trim_start_matches('/').contains('/');
    let of_object = |it: &str| {
        let name = it.split('=').next().unwrap_or_default();
        name.is_empty() || OF_OBJECTS.contains(&name) || name.starts_with("X-Amz-")
    };
    let query = uri.query().unwrap_or_default();
    *method == Method::POST || !has_key || !query.split('&').all(of_object)
}

/// Query parameters of requests whose body is a part of a blob.
const OF_OBJECTS: &[&str] = &["partNumber", "uploadId", "x-id"];

/// The memory of one request.
#[derive(Clone, Default)]
struct Charge {
    taken: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    refused: Arc<AtomicBool>,
}

impl Charge {
    fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    fn add(&self, more: OwnedSemaphorePermit) {
        let mut taken = self.taken.lock();
        match &mut *taken {
            Some(taken) => taken.merge(more),
            None => *taken = Some(more),
        }
    }
}

struct ChargedBody {
    body: Body,
    left: Arc<Semaphore>,
    charge: Charge,
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => 0,
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.left.clone().try_acquire_many_owned(bytes) {
            Ok(taken) => self.charge.add(taken),
            Err(error) => {
                self.charge.refused.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, extract::State, middleware, routing::post};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_body_beyond_the_budget_is_refused_and_its_memory_is_released() {
        let budget = Budget::of(10_000);
        let app = Router::new().route("/", post(async |body: Bytes| body.len().to_string())).layer(
            middleware::from_fn_with_state(
                budget.clone(),
                async |State(budget): State<Budget>, request: Request, next: Next| {
                    check(&budget, request, next).await
                },
            ),
        );
        let send = async |bytes: usize| {
            let request = Request::post("/").body(Body::from(vec![0; bytes])).unwrap();
            app.clone().oneshot(request).await.unwrap()
        };
        assert_eq!(send(10_000).await.status(), 200);
        let refused = send(10_001).await;
        assert_eq!(refused.extensions().get::<Problem>().unwrap().code(), "busy");
        assert_eq!(budget.left.available_permits(), 10_000);
        assert_eq!(send(10_000).await.status(), 200);
    }

    #[test]
    fn documents_are_distinguished_from_contents() {
        for (method, uri, is) in [
            (Method::PUT, "/b/k", false),
            (Method::PUT, "/b/k?partNumber=1&uploadId=x", false),
            (Method::PUT, "/b/k?X-Amz-Signature=00&X-Amz-Date=1", false),
            (Method::PUT, "/b?lifecycle", true),
            (Method::PUT, "/b?notification=", true),
            (Method::PUT, "/b", true),
            (Method::PUT, "/b/k?acl=1", true),
            (Method::PUT, "/b/k?x-id=PutObject", false),
            (Method::POST, "/b/k?uploadId=x", true),
        ] {
            assert_eq!(is_document(&method, &uri.parse().unwrap()), is, "{uri}");
        }
    }
}
