//! What steps give in a test instead of running.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use crate::Error;

/// How one attempt ends.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    Gives(Value),
    Fails(Error),
    TimesOut,
}

/// What the next attempts of steps are to give. Outside of tests there is none.
#[derive(Clone, Default)]
pub(crate) struct Script(Option<Arc<Mutex<Lines>>>);

/// By the workflow and the step.
type Lines = HashMap<(String, String), VecDeque<Says>>;

impl Script {
    /// One that a test writes.
    pub(crate) fn written() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn say(&self, workflow: &str, step: &str, says: Says) {
        if let Some(lines) = &self.0 {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.entry((workflow.into(), step.into())).or_default().push_back(says);
        }
    }

    /// How the next attempt of this step ends, unless it is to run as it is.
    pub(super) fn next(&self, workflow: &str, step: &str) -> Option<Says> {
        let mut lines = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get_mut(&(workflow.to_owned(), step.to_owned()))?.pop_front()
    }
}
