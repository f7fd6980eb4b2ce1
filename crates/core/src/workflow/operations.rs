//! Operations of a run besides steps: calls of objects, messages, and waits for a time or an event.
//!
//! A sleeping run has no task, and no memory beyond the fold cache. The commit that records a send
//! also sends the message.

use std::{future::poll_fn, panic::Location, pin::Pin, task::Poll, time::Duration};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use steadfast_store::{self as store, Due, EntityKind, Timestamp};

use super::{
    ctx::{Ctx, SourceLine, decode},
    fold::StepResult,
    record::{Attempt, Entry, Key, StepInput, Wait},
    step::{BodyAttempt, Retry, StepBody, StepRequest, TIMEOUT, attempts},
};
use crate::{
    Address, Body, CallError, Error, Handle, Result,
    body::from_value,
    object::{CallKey, Destination, Lists},
};

/// A busy object or an unavailable store is retried.
const RETRY: Retry = Retry::exponential(Duration::from_millis(100))
    .limit(u32::MAX)
    .delay_max(Duration::from_mins(1));

impl Ctx {
    /// Calls an object: one turn, however often the call is retried and however long the process is
    /// down in between. The store keeps the reply until the run has recorded it. A terminal error
    /// of the object is the error of this call.
    #[track_caller]
    pub fn call<C, M, I>(
        &self,
        to: Address<C>,
        msg: M,
    ) -> impl Future<Output = Result<C::Reply>> + Send
    where
        C: Handle<M>,
        C::Calls: Lists<M, I>,
        M: Body,
    {
        let line = Location::caller();
        async move {
            let body = serde_json::to_string(&msg)?;
            let mut reply = None;
            let mut read = |value: &Value| {
                reply = Some(from_value(value)?);
                Ok(())
            };
            let call = ErasedCall { class: C::CLASS, name: to.name(), message: C::NAME, body };
            call_erased(self, call, line, &mut read).await?;
            reply.ok_or_else(|| Error::terminal("a call ended without a reply"))
        }
    }

    /// The key of the next call of this name in this branch. It changes when the run restarts, and
    /// when the id is used again after the run was erased.
    fn call_key(&self, name: &str) -> Result<CallKey> {
        let state = self.state();
        let (place, fold) = (state.next_key("call", name), &state.fold);
        let first = fold.head.first;
        let digest = Sha256::digest(format!("{first}/{}/{place}", fold.generation));
        Ok(CallKey::new(first, &HEXLOWER.encode(&digest[..16]))?)
    }
}

/// A call of a run without its types.
struct ErasedCall<'a> {
    class: &'static str,
    name: &'a str,
    message: &'static str,
    body: String,
}

type ReadReply<'a> = &'a mut (dyn FnMut(&Value) -> serde_json::Result<()> + Send);

/// Calls an object as a step of a run, and has the reply read. It is boxed: each crate that awaits
/// it would compile it again.
fn call_erased<'a>(
    ctx: &'a Ctx,
    call: ErasedCall<'a>,
    line: SourceLine,
    read: ReadReply<'a>,
) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
    Box::pin(async move {
        let key = ctx.call_key(call.message)?;
        let object = store::Address::new(EntityKind::Object, call.class, call.name);
        let object = object.map_or_else(|_| call.name.to_owned(), |it| it.to_string());
        let asked = StepRequest {
            kind: "call",
            name: call.message,
            line,
            retry: RETRY,
            timeout: TIMEOUT,
            call: Some((key.clone(), StepInput::new(object, &call.body))),
        };
        let mut body = CallBody { ctx, call: &call, key: &key, read };
        attempts(ctx, asked, &mut body).await
    })
}

struct CallBody<'a, 'b> {
    ctx: &'a Ctx,
    call: &'a ErasedCall<'a>,
    key: &'a CallKey,
    read: ReadReply<'b>,
}

impl<'a> StepBody<'a> for CallBody<'a, '_> {
    fn begin(&mut self) -> BodyAttempt<'a> {
        let Self { ctx, call, key, .. } = *self;
        Box::pin(async move {
            let ErasedCall { class, name, message, body } = call;
            let objects = &ctx.0.environment.objects;
            let reply = objects.call_for_run(class, name, message, body, key).await;
            Ok(Ok(reply.map_err(error)?))
        })
    }

    fn read(&mut self, value: &Value) -> serde_json::Result<()> {
        (self.read)(value)
    }
}

fn error(error: CallError) -> Error {
    if let CallError::Refused(error) = error {
        return error;
    }
    let code = error.code().to_owned();
    // If the outcome is unknown, the retry finds the stored reply.
    let again = error.is_retryable() || !error.surely_unapplied();
    let error = if again { Error::retryable(error) } else { Error::terminal(error) };
    error.with_code(&code)
}

impl Ctx {
    /// Sends a message to a queue, an object or a run, once: the record and the message are in the
    /// same commit. It does not wait for the delivery.
    #[track_caller]
    pub fn send<M: Body, I>(
        &self,
        to: impl Destination<M, I> + Send,
        msg: M,
    ) -> impl Future<Output = Result<()>> + Send {
        let (line, sending) = (Location::caller(), to.sending(msg));
        async move {
            let name = sending.as_ref().map_or("", |it| it.message_type);
            let key = self.key("send", name, line).await;
            match self.known(&key) {
                Some(StepResult::Failed(error)) => return Err(error),
                Some(StepResult::Value(_) | StepResult::Timer(_)) => return Ok(()),
                None => {}
            }
            let now = self.clock_now();
            match sending.and_then(|it| it.message(Due::After(Duration::ZERO))) {
                Ok(message) => {
                    // The record has the message itself, after this entry.
                    let done = Entry::Done { key, value: Value::Null, attempt: None, input: None };
                    self.state().give(now, done, Some(message));
                    Ok(())
                }
                Err(error) => {
                    let text = format!("{key} cannot be sent: {error}");
                    let error = Error::terminal(text).with_code("invalid_input");
                    let attempt = Attempt { number: 1, began_at: now.0 };
                    self.give(Entry::Failed { key, error: error.clone(), attempt, input: None });
                    Err(error)
                }
            }
        }
    }
}

impl Ctx {
    /// Waits for this duration.
    #[track_caller]
    pub fn sleep(&self, name: &str, duration: Duration) -> impl Future<Output = Result<()>> + Send {
        self.sleep_for(name, duration, Location::caller())
    }

    /// Waits until this time; a past time is no wait.
    #[track_caller]
    pub fn sleep_until(
        &self,
        name: &str,
        until: Timestamp,
    ) -> impl Future<Output = Result<()>> + Send {
        let line = Location::caller();
        async move { self.sleep_to(name, || until, line).await }
    }

    pub(super) async fn sleep_for(
        &self,
        name: &str,
        duration: Duration,
        line: SourceLine,
    ) -> Result<()> {
        self.sleep_to(name, || self.clock_now().after(duration), line).await
    }

    async fn sleep_to(
        &self,
        name: &str,
        until: impl FnOnce() -> Timestamp,
        line: SourceLine,
    ) -> Result<()> {
        let key = self.key("sleep", name, line).await;
        if self.known(&key).is_none() {
            self.give(Entry::Timer { key: key.clone(), due_at: until().0 });
        }
        // A pause shifts it, so it is read each time.
        poll_fn(|_| match self.known(&key) {
            Some(StepResult::Timer(due_at)) => self.wait_until(&key, due_at),
            Some(StepResult::Value(_) | StepResult::Failed(_)) | None => Poll::Pending,
        })
        .await;
        Ok(())
    }

    /// The next event of this name, in the order of arrival, each taken once. An event that arrived
    /// earlier is returned immediately.
    #[track_caller]
    pub fn event<T: Body>(&self, name: &str) -> impl Future<Output = Result<T>> + Send {
        let line = Location::caller();
        async move {
            let key = self.key("event", name, line).await;
            let value = poll_fn(|_| {
                if let Some(value) = self.known_value(&key) {
                    return Poll::Ready(value);
                }
                let now = self.clock_now();
                let mut state = self.state();
                let waiting = state.fold.events.get(name).and_then(|it| it.front());
                let Some((event, payload)) = waiting.map(|it| (it.version, it.payload.clone()))
                else {
                    state.waits.push(Wait { key: key.clone(), until: None });
                    return Poll::Pending;
                };
                state.give(now, Entry::Took { key: key.clone(), event }, None);
                Poll::Ready(payload)
            })
            .await;
            decode(&key, &value)
        }
    }

    /// Ready when the time has come; until then the run waits for it.
    pub(super) fn wait_until(&self, key: &Key, due_at: Timestamp) -> Poll<()> {
        let now = self.clock_now();
        let mut state = self.state();
        if due_at <= now && !state.is_paused() {
            return Poll::Ready(());
        }
        state.waits.push(Wait { key: key.clone(), until: Some(due_at.0) });
        Poll::Pending
    }
}
