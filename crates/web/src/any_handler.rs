//! Handlers whose types are erased, so that the router is not compiled again for each of them.

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, handler::Handler, response::Response};

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler of any type. axum compiles about ten functions for each type of a handler that is
/// routed; with this one they are compiled once for each type of state.
#[derive(Clone)]
pub struct AnyHandler<S>(Arc<dyn Fn(Request, S) -> Answer + Send + Sync>);

impl<S> AnyHandler<S> {
    /// Erases the type of a handler.
    pub fn of<T>(handler: impl Handler<T, S>) -> Self {
        Self::new(move |request, state| Box::pin(handler.clone().call(request, state)))
    }

    /// A handler that reads the whole request itself.
    pub fn new(handle: impl Fn(Request, S) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle))
    }
}

impl<S: Clone + Send + Sync + 'static> Handler<(), S> for AnyHandler<S> {
    type Future = Answer;

    fn call(self, request: Request, state: S) -> Answer {
        (self.0)(request, state)
    }
}
