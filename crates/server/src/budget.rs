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
    http::{Method, Uri},
};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
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

    /// Takes memory for a body as it arrives; `None` if it is small. The memory is released when
    /// the body and the charge are dropped.
    pub(crate) fn limit(&self, body: Body) -> (Body, Option<Charge>) {
        let is_small = body.size_hint().upper().is_some_and(|it| it <= SMALL_BYTES_MAX);
        if is_small || body.is_end_stream() {
            return (body, None);
        }
        self.charge(body)
    }

    /// The same for S3, which buffers only XML documents.
    pub(crate) fn limit_s3(
        &self,
        (method, uri): (&Method, &Uri),
        body: Body,
    ) -> (Body, Option<Charge>) {
        if is_document(method, uri) { self.charge(body) } else { (body, None) }
    }

    fn charge(&self, body: Body) -> (Body, Option<Charge>) {
        let charge = Charge::default();
        let (left, to) = (self.left.clone(), charge.clone());
        (Body::new(ChargedBody { body, left, charge: to }), Some(charge))
    }
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
pub(crate) struct Charge {
    taken: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    refused: Arc<AtomicBool>,
}

impl Charge {
    /// Whether no memory was left.
    pub(crate) fn was_refused(&self) -> bool {
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
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_body_beyond_the_budget_is_refused_and_its_memory_is_released() {
        let budget = Budget::of(10_000);
        let is_refused = async |bytes: usize| {
            let (body, charge) = budget.limit(Body::from(vec![0; bytes]));
            let is_cut = to_bytes(body, usize::MAX).await.is_err();
            let is_refused = charge.unwrap().was_refused();
            assert_eq!(is_cut, is_refused);
            is_refused
        };
        assert!(!is_refused(10_000).await);
        assert!(is_refused(10_001).await);
        assert_eq!(budget.left.available_permits(), 10_000);
        assert!(!is_refused(10_000).await);
        let small = budget.limit(Body::from(vec![0; SMALL_BYTES_MAX as usize]));
        assert!(small.1.is_none(), "it needs no budget");
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
