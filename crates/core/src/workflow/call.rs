//! Turns of objects as steps of a run.

use std::{panic::Location, pin::Pin, time::Duration};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use steadfast_store::{self as store, EntityKind};

use super::{
    Ctx, Retry,
    ctx::SourceLine,
    record::StepInput,
    step::{BodyAttempt, StepBody, StepRequest, TIMEOUT, attempts},
};
use crate::{
    Address, Body, CallError, Error, Handle, Result,
    body::from_value,
    object::{CallKey, Lists},
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
