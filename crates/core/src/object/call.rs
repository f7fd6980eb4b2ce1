//! Calls of objects: from a program, by names, from a run, and as the end of a delivery.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use async_trait::async_trait;
use steadfast_store::{self as store, EntityKind, StoreError};

use super::{
    CallError, Objects,
    api::{Address, Handle, Lists},
    connection::Caller,
    request::{CallKey, Key, Reply, Request, Settle},
};
use crate::{Body, Error, RequestKey, remote::Backend};

/// Carries calls of objects to a program in another process. Bodies are JSON, and every error is
/// [`StoreError::Remote`].
#[async_trait]
pub trait RemoteObjects: Send + Sync + 'static {
    /// Calls the object with this class and name; gives the reply.
    async fn call(
        &self,
        object: (&str, &str),
        message: &str,
        body: &str,
        key: Option<&str>,
    ) -> Result<String, StoreError>;

    /// Deletes the object with this class and name; `false` if it did not exist.
    async fn delete_object(&self, object: (&str, &str)) -> Result<bool, StoreError>;
}

/// An object that refuses is [`CallError::Refused`], for a local and a remote program alike.
pub(crate) fn call_error(error: StoreError) -> CallError {
    if let StoreError::Remote(problem) = &error
        && let Some(code) = &problem.refusal
    {
        let refused = match problem.is_retryable {
            true => Error::retryable(&problem.detail),
            false => Error::terminal(&problem.detail),
        };
        return CallError::Refused(refused.with_code(code));
    }
    error.into()
}

/// A call that is about to be made.
#[must_use = "a call is made when it is awaited"]
pub struct PendingCall<R> {
    backend: Result<Backend<Objects, dyn RemoteObjects>, StoreError>,
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
        backend: Result<Backend<Objects, dyn RemoteObjects>, StoreError>,
        to: Address<C>,
        msg: M,
    ) -> Self {
        let (message, body) = (C::NAME, written(C::NAME, serde_json::to_string(&msg)));
        let to = to.resolve().map_err(CallError::from);
        let caller = Caller::Internal;
        Self { backend, to, message, body, key: None, caller, reply: PhantomData }
    }

    /// Makes the call for a caller.
    pub(crate) fn by(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    /// Makes the call once for this key: a repetition within a day changes nothing and returns the
    /// reply of the first call.
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
        let Self { backend, to, message, body, key, caller, .. } = self;
        let reply = make_call(backend, to, message, body, key, caller);
        Box::pin(async move { read(message, &reply.await?) })
    }
}

/// Makes a call. It is boxed: each crate that awaits it would compile it again.
fn make_call(
    backend: Result<Backend<Objects, dyn RemoteObjects>, StoreError>,
    to: Result<store::Address, CallError>,
    message: &'static str,
    body: Result<String, CallError>,
    key: Option<String>,
    caller: Caller,
) -> Pin<Box<dyn Future<Output = Reply> + Send>> {
    Box::pin(async move {
        let (to, body, key) = (to?, body?, key.as_deref());
        match backend? {
            Backend::Local(objects) => objects.call_message(&to, message, &body, key, caller).await,
            Backend::Remote(transport) => {
                let object = (to.class(), to.name());
                transport.call(object, message, &body, key).await.map_err(call_error)
            }
        }
    })
}

fn read<R: Body>(message: &str, reply: &str) -> Result<R, CallError> {
    serde_json::from_str(reply).map_err(|error| unreadable(message, &error))
}

fn unreadable(message: &str, error: &serde_json::Error) -> CallError {
    CallError::Reply { message: message.into(), detail: error.to_string() }
}

/// The body of a call, as it was written.
fn written(message: &str, body: serde_json::Result<String>) -> Result<String, CallError> {
    body.map_err(|error| CallError::Malformed {
        message: message.into(),
        path: ".".into(),
        detail: error.to_string(),
    })
}

impl Objects {
    /// Calls an object. Await it, or give it an idempotency key first.
    pub fn call<C: Handle<M>, M: Body, I>(&self, to: Address<C>, msg: M) -> PendingCall<C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        PendingCall::typed(Ok(Backend::Local(self.clone())), to, msg)
    }

    /// Calls an object once for a request. The commit of the turn records the key with the reply.
    /// The store keeps the key, not the object: the same key with a call of another object is
    /// refused. A call that is refused records nothing, and neither does a turn without effects.
    pub async fn call_once<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
        key: RequestKey,
    ) -> Result<C::Reply, CallError>
    where
        C::Calls: Lists<M, I>,
    {
        let PendingCall { to, message, body, caller, .. } = self.call(to, msg);
        read(message, &self.call_message_once(to?, message, body?, key, caller).await?)
    }

    #[steadfast_store::boxed]
    async fn call_message_once(
        &self,
        to: store::Address,
        message: &'static str,
        body: String,
        key: RequestKey,
        caller: Caller,
    ) -> Reply {
        let store = &*self.scheduler.store;
        // Of two concurrent calls, the store would reject the second, and all turns behind it.
        let _alone = self.scheduler.keyed.lock(&key).await;
        if let Some(before) = key.answer::<String>(store).await? {
            return Ok(before);
        }
        let stored = Some(Key::of_request(key.clone()));
        let (body, message) = (body.into(), message.into());
        let request = Request::Call { message, body, key: stored, caller };
        match self.request(&to, request, None).await {
            // Another request with this key may have been first.
            Err(error @ CallError::Lost { .. }) => key.answer(store).await?.ok_or(error),
            reply => reply,
        }
    }

    /// Calls an object by names, with JSON, for callers outside of the program: the turn's
    /// [`Caller`] is anonymous. An empty body is a message without fields.
    #[steadfast_store::boxed]
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
        key: Option<&str>,
    ) -> Result<String, CallError> {
        self.call_json_by((class, name), message, body, key, Caller::Anonymous).await
    }

    /// Calls an object by class and name, for a [`Caller`] that the turn sees.
    #[steadfast_store::boxed]
    pub async fn call_json_by(
        &self,
        (class, name): (&str, &str),
        message: &str,
        body: &str,
        key: Option<&str>,
        caller: Caller,
    ) -> Result<String, CallError> {
        self.class(class)?;
        let to = store::Address::new(EntityKind::Object, class, name)?;
        self.call_message(&to, message, body, key, caller).await
    }

    async fn call_message(
        &self,
        to: &store::Address,
        message: &str,
        body: &str,
        key: Option<&str>,
        caller: Caller,
    ) -> Reply {
        let class = self.class(to.class())?;
        if !class.class.methods.contains_key(message) {
            let class = to.class().into();
            return Err(CallError::UnknownMessage { class, message: message.into() });
        }
        let key = key.map(|key| Key::new(key, message, body)).transpose()?;
        let request = Request::Call { message: message.into(), body: body.into(), key, caller };
        self.request(to, request, None).await
    }

    /// Calls an object; the commit of the turn settles a delivery.
    pub(crate) async fn settle<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
        position: store::Position,
        lease: Option<store::Lease>,
    ) -> Result<(), CallError>
    where
        C::Calls: Lists<M, I>,
    {
        let body = written(C::NAME, serde_json::to_string(&msg))?;
        self.settle_call(to.resolve()?, C::NAME, body, Settle { position, lease }).await
    }

    #[steadfast_store::boxed]
    async fn settle_call(
        &self,
        to: store::Address,
        message: &'static str,
        body: String,
        settle: Settle,
    ) -> Result<(), CallError> {
        let (message, caller) = (message.into(), Caller::Internal);
        let request = Request::Call { message, body: body.into(), key: None, caller };
        self.request(&to, request, Some(settle)).await.map(drop)
    }

    /// Calls an object for a run, or returns the reply of an earlier attempt.
    pub(crate) async fn call_for_run(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
        call: &CallKey,
    ) -> Result<String, CallError> {
        let key = Key::of_run(call.clone(), message, body)?;
        if let Some(reply) = key.stored_reply(&*self.scheduler.store).await? {
            return Ok(reply);
        }
        self.class(class)?;
        let to = store::Address::new(EntityKind::Object, class, name)?;
        let (message, caller) = (message.into(), Caller::Internal);
        let request = Request::Call { message, body: body.into(), key: Some(key), caller };
        self.request(&to, request, None).await
    }
}
