//! Turns of objects start and terminate runs, and get a message when a run ends, in the commit
//! that ends it.

use std::{marker::PhantomData, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_store::{self as store, AddressError, Due, InvalidInput, Json, Message};

use super::{
    definition::{RunAddress, Workflow},
    error::RunError,
    record::{Entry, OnEnd},
};
use crate::{
    Address, CallError, Error, Handle, Object, Result, Turn,
    object::{Lists, Sending, TurnState, call_message},
};

/// A run has ended: an ordinary message. List it in `Calls` and `impl Handle<RunEnded<W>>`, and
/// name the object when the run is started, see
/// [`RunStart::on_end`](crate::workflow::RunStart::on_end).
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct RunEnded<W: Workflow> {
    /// The id of the run.
    pub id: String,
    /// Its output or error. A terminated run has an error with the code `terminated`.
    pub result: Result<W::Output>,
}

impl OnEnd {
    /// The message for this entry; `None` if it is not an end.
    pub(super) fn message(
        &self,
        run: &store::Address,
        entry: &Entry,
    ) -> Result<Option<Message>, InvalidInput> {
        let result: Result<&Value> = match entry {
            Entry::Completed { output } => Ok(output),
            Entry::Errored { error } => Err(error.clone()),
            Entry::Terminated => {
                Err(Error::terminal("the run was terminated").with_code("terminated"))
            }
            Entry::Started { .. }
            | Entry::Done { .. }
            | Entry::Failed { .. }
            | Entry::Tried { .. }
            | Entry::Timer { .. }
            | Entry::Event { .. }
            | Entry::Took { .. }
            | Entry::Paused { .. }
            | Entry::Resumed { .. }
            | Entry::Retried
            | Entry::Restarted { .. }
            | Entry::Wake { .. }
            | Entry::Waits { .. }
            | Entry::Progress(_) => return Ok(None),
        };
        // The start of the run has checked it.
        let Ok(to) = self.to.parse::<store::Address>() else { return Ok(None) };
        match self.notification(&to, run, &result) {
            // With its envelope it may exceed the limits of a message.
            Err(error) => {
                let text =
                    format!("the output does not fit into a message ({error}); read the run");
                let error = Error::terminal(text).with_code("result_too_large");
                self.notification(&to, run, &Err(error)).map(Some)
            }
            Ok(message) => Ok(Some(message)),
        }
    }

    fn notification(
        &self,
        to: &store::Address,
        run: &store::Address,
        result: &Result<&Value>,
    ) -> Result<Message, InvalidInput> {
        let data = Json::of(&json!({ "id": run.name(), "result": result }))?;
        call_message(to, &self.message, data)
    }
}

impl<C: Object> Turn<C> {
    /// Starts a run of a workflow, or finds it: one run for each id. The turn fails if the program
    /// does not serve the workflow, or if the id is invalid.
    pub fn start<W: Workflow>(&self, run: RunAddress<W>, input: W::Input) -> RunStart<'_, W> {
        let run = send_to_run(&self.state, W::NAME, run.resolve(), "start", Json::of(&input));
        RunStart { state: &self.state, run, workflow: PhantomData }
    }

    /// Terminates a run of a workflow, if it exists and has not ended.
    pub fn terminate<W: Workflow>(&self, run: RunAddress<W>) {
        let _ = send_to_run(&self.state, W::NAME, run.resolve(), "terminate", Json::of(&()));
    }
}

/// A run that a turn has started.
pub struct RunStart<'a, W> {
    state: &'a TurnState,
    /// The run, and the index of the message that starts it; `None` if it could not be sent.
    run: Option<(store::Address, usize)>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> RunStart<'_, W> {
    /// Sends [`RunEnded`] to this object when the run ends, in the commit of the end. Only the
    /// start that creates the run sets it; a start that finds the run changes nothing. A restarted
    /// run sends a message for each end, and a later one may arrive first.
    pub fn on_end<C: Handle<RunEnded<W>>, I>(self, to: Address<C>)
    where
        C::Calls: Lists<RunEnded<W>, I>,
    {
        // A start that failed fails the turn.
        let Some((run, index)) = self.run else { return };
        let to = to.resolve().map(|it| OnEnd { to: it.to_string(), message: C::NAME.into() });
        set_on_end(self.state, (&run, index), C::CLASS, to);
    }
}

fn set_on_end(
    state: &TurnState,
    (run, index): (&store::Address, usize),
    class: &str,
    on_end: Result<OnEnd, AddressError>,
) {
    if !state.served.as_ref().is_none_or(|it| it.has_class(class)) {
        let text = CallError::UnknownClass { class: class.into() }.to_string();
        return state.fail(Error::terminal(text).with_code("class_not_found"));
    }
    let mut outgoing = state.outgoing.borrow_mut();
    // It is undone if the attempt that started the run has failed.
    let Some(message) = outgoing.get_mut(index).filter(|it| it.is_for(run, "start")) else {
        return;
    };
    let metadata = || Json::of(&json!({ "to": run.to_string(), "onEnd": on_end? }));
    match metadata().and_then(|it| message.clone().metadata(it)) {
        Ok(with_end) => *message = with_end,
        Err(error) => state.fail(Error::terminal(error).with_code("invalid_input")),
    }
}

fn send_to_run(
    state: &TurnState,
    workflow: &'static str,
    run: Result<store::Address, RunError>,
    action: &'static str,
    data: Result<Json, InvalidInput>,
) -> Option<(store::Address, usize)> {
    // A run of a workflow that is no longer served can still be terminated.
    let served = state.served.as_ref().is_none_or(|it| it.has_workflow(workflow));
    let target = match served || action != "start" {
        true => run,
        false => Err(RunError::UnknownWorkflow { workflow: workflow.into() }),
    };
    let target = match target {
        Ok(target) => target,
        Err(error) => {
            let code = error.code().to_owned();
            state.fail(Error::terminal(error).with_code(&code));
            return None;
        }
    };
    let sending = || {
        let sending = Sending::to(target.clone(), action, workflow, data?)?;
        // The run is started before it is terminated.
        Ok(Sending { ordered: true, ..sending })
    };
    let sent = state.outgoing.borrow().len();
    state.send(sending(), Due::After(Duration::ZERO));
    (sent < state.outgoing.borrow().len()).then_some((target, sent))
}
