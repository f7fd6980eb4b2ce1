//! A call that can be given a key before it is made.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use steadfast_store as store;

use super::{CallError, Objects};
use crate::Body;

/// A call that is about to be made.
#[must_use = "a call is made when it is awaited"]
pub struct PendingCall<'a, R> {
    objects: &'a Objects,
    to: Result<store::Address, CallError>,
    message: &'static str,
    body: Result<String, CallError>,
    key: Option<String>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> PendingCall<'a, R> {
    pub(super) fn new(
        objects: &'a Objects,
        to: Result<store::Address, CallError>,
        message: &'static str,
        body: Result<String, CallError>,
    ) -> Self {
        Self { objects, to, message, body, key: None, reply: PhantomData }
    }

    /// Makes the call once for this key: a repetition within a day changes nothing and gets the
    /// reply of the first.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl<'a, R: Body> IntoFuture for PendingCall<'a, R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { objects, to, message, body, key, .. } = self;
            let reply = objects.give_call(&to?, message, &body?, key.as_deref()).await?;
            serde_json::from_str(&reply).map_err(|error| CallError::Reply {
                message: message.into(),
                detail: error.to_string(),
            })
        })
    }
}
