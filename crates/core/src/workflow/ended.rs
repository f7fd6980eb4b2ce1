//! Notifies an object of the end of a run, in the commit that ends the run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_store::{Address, Due, InvalidInput, Json, Message, Task};

use super::{
    Workflow,
    record::{Entry, OnEnd},
};
use crate::{Error, Result};

/// A run has ended: an ordinary message. List it in `Calls` and `impl Handle<RunEnded<W>>`, and
/// name the object when the run is started, see
/// [`StartedRun::on_end`](crate::object::StartedRun::on_end).
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
        run: &Address,
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
        let Ok(to) = self.to.parse::<Address>() else { return Ok(None) };
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
        to: &Address,
        run: &Address,
        result: &Result<&Value>,
    ) -> Result<Message, InvalidInput> {
        let data = Json::of(&json!({ "id": run.name(), "result": result }))?;
        let metadata = Json::of(&json!({ "to": self.to }))?;
        let message = Message::new(&self.message, data)?.action("call").metadata(metadata)?;
        let (target, due) = (to.clone(), Due::After(Duration::ZERO));
        Ok(message.task(Task { target, ordered: false, due }))
    }
}
