//! Turns of objects as steps of a run.

use std::{panic::Location, time::Duration};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use steadfast_store::{self as store, EntityKind};

use super::{
    Ctx, Retry,
    record::StepInput,
    step::{StepRequest, TIMEOUT, run},
};
use crate::{
    Address, Body, CallError, Error, Handle, Result,
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
            let (body, key) = (serde_json::to_string(&msg)?, self.call_key(C::NAME)?);
            let call = || {
                let (objects, key, body, name) =
                    (&self.0.environment.objects, &key, &body, to.name());
                async move {
                    let reply = objects.call_for_run(C::CLASS, name, C::NAME, body, key).await;
                    Ok(serde_json::from_str(&reply.map_err(error)?)?)
                }
            };
            let object = store::Address::new(EntityKind::Object, C::CLASS, to.name());
            let object = object.map_or_else(|_| to.name().to_owned(), |it| it.to_string());
            let asked = Some((key.clone(), StepInput::new(object, &body)));
            let (name, retry, timeout) = (C::NAME, RETRY, TIMEOUT);
            run(self, StepRequest { kind: "call", name, line, retry, timeout, call: asked }, call)
                .await
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
