//! Turns of objects as steps of a run.

use std::{panic::Location, time::Duration};

use sha2::{Digest, Sha256};

use super::{
    Ctx, Retry,
    step::{Asked, TIMEOUT, run},
};
use crate::{Address, Body, CallError, Error, Handle, Result, object::Lists};

/// An object that has no time, or a store that is away, is waited for.
const RETRY: Retry = Retry::exponential(Duration::from_millis(100))
    .limit(u32::MAX)
    .delay_max(Duration::from_mins(1));

impl Ctx {
    /// Calls an object: one turn, however often it is tried, because the call carries a key of this
    /// place in this run. What the object refuses for good is an error of this.
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
            let (body, place) = (serde_json::to_string(&msg)?, self.place(C::NAME));
            let call = || {
                let (objects, place, body, name) =
                    (&self.0.around.objects, &place, &body, to.name());
                async move {
                    let reply = objects.call_json(C::CLASS, name, C::NAME, body, Some(place)).await;
                    Ok(serde_json::from_str(&reply.map_err(error)?)?)
                }
            };
            let (name, retry, timeout) = (C::NAME, RETRY, TIMEOUT);
            run(self, Asked { kind: "call", name, line, retry, timeout }, call).await
        }
    }

    /// A key for the next call of this name here; another one when the run begins anew, and when
    /// its id was erased and is used again.
    fn place(&self, name: &str) -> String {
        let state = self.state();
        let (place, journal) = (state.next_key("call", name), &state.journal);
        let text = format!("{}/{}/{place}", journal.head.first, journal.generation);
        let digest = Sha256::digest(text);
        digest.iter().take(16).map(|it| format!("{it:02x}")).collect()
    }
}

fn error(error: CallError) -> Error {
    if let CallError::Refused(error) = error {
        return error;
    }
    let code = error.code().to_owned();
    // If nobody knows what became of it, the key tells when it is tried again.
    let again = error.is_retryable() || !error.surely_unapplied();
    let error = if again { Error::retryable(error) } else { Error::terminal(error) };
    error.with_code(&code)
}
