//! A call that can be given a key before it is made.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use steadfast_store as store;

use steadfast_store::StoreError;

use super::{Address, CallError, Caller, Handle, Objects};
use crate::{Body, client::Way, door::call_error};

/// A call that is about to be made.
#[must_use = "a call is made when it is awaited"]
pub struct PendingCall<R> {
    way: Result<Way<Objects>, StoreError>,
    to: Result<store::Address, CallError>,
    message: &'static str,
    body: Result<String, CallError>,
    key: Option<String>,
    caller: Caller,
    reply: PhantomData<fn() -> R>,
}

impl<R> PendingCall<R> {
    /// A call of one of these objects.
    pub(crate) fn typed<C: Handle<M, Reply = R>, M: Body>(
        way: Result<Way<Objects>, StoreError>,
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
        let caller = Caller::Internal;
        Self { way, to, message, body, key: None, caller, reply: PhantomData }
    }

    /// Makes the call for a caller.
    pub(crate) fn by(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    /// Makes the call once for this key: a repetition within a day changes nothing and gets the
    /// reply of the first.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same with a key that may be missing, as one from a header of a request.
    pub fn maybe_key(mut self, key: Option<&str>) -> Self {
        self.key = key.map(str::to_owned);
        self
    }
}

impl<R: Body> IntoFuture for PendingCall<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { way, to, message, body, key, caller, .. } = self;
            let (to, body, key) = (to?, body?, key.as_deref());
            let reply = match way? {
                Way::Local(objects) => objects.give_call(&to, message, &body, key, caller).await?,
                Way::Remote(door) => {
                    let object = (to.class(), to.name());
                    door.call(object, message, &body, key).await.map_err(call_error)?
                }
            };
            serde_json::from_str(&reply).map_err(|error| CallError::Reply {
                message: message.into(),
                detail: error.to_string(),
            })
        })
    }
}
