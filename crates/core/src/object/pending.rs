//! A call that can be given a key before it is made.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use steadfast_store as store;

use super::{Address, CallError, Caller, Handle, Objects};
use crate::Body;

/// A call that is about to be made.
#[must_use = "a call is made when it is awaited"]
pub struct PendingCall<R> {
    objects: Result<Objects, CallError>,
    to: Result<store::Address, CallError>,
    message: &'static str,
    body: Result<String, CallError>,
    key: Option<String>,
    reply: PhantomData<fn() -> R>,
}

impl<R> PendingCall<R> {
    /// A call of one of these objects.
    pub(crate) fn typed<C: Handle<M, Reply = R>, M: Body>(
        objects: Result<Objects, CallError>,
        to: Address<C>,
        msg: M,
    ) -> Self {
        let message = C::NAME;
        let body = serde_json::to_string(&msg).map_err(|error| CallError::Malformed {
            message: message.into(),
            path: ".".into(),
            detail: error.to_string(),
        });
        let to = to.resolve().map_err(CallError::from);
        Self { objects, to, message, body, key: None, reply: PhantomData }
    }

    /// Makes the call once for this key: a repetition within a day changes nothing and gets the
    /// reply of the first.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl<R: Body> IntoFuture for PendingCall<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { objects, to, message, body, key, .. } = self;
            let reply =
                objects?.give_call(&to?, message, &body?, key.as_deref(), Caller::Internal).await?;
            serde_json::from_str(&reply).map_err(|error| CallError::Reply {
                message: message.into(),
                detail: error.to_string(),
            })
        })
    }
}
