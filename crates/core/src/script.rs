//! Scripted results of steps, jobs and consumers in tests.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::Error;

/// The scripted result of one attempt.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedResult {
    Value(Value),
    Fails(Error),
    TimesOut,
}

impl ScriptedResult {
    /// The result of an attempt; a timeout is an error that is retried.
    pub(crate) fn result(self) -> Result<Value, Error> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Fails(error) => Err(error),
            Self::TimesOut => Err(Error::retryable("the attempt timed out")),
        }
    }
}

/// The step, job or consumer whose attempts are scripted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScriptKey {
    Step { workflow: String, step: String },
    Job(&'static str),
    Consumer(&'static str),
}

/// The scripted results of the next attempts. Outside of tests there are none.
#[derive(Clone, Default)]
pub(crate) struct Script(Option<Arc<Mutex<Results>>>);

type Results = HashMap<ScriptKey, VecDeque<ScriptedResult>>;

impl Script {
    /// A script that a test can extend.
    pub(crate) fn written() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether a test can extend it.
    pub(crate) fn is_written(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn add(&self, key: ScriptKey, result: ScriptedResult) {
        if let Some(results) = &self.0 {
            let mut results = results.lock();
            results.entry(key).or_default().push_back(result);
        }
    }

    /// The scripted result of the next attempt; `None` if the attempt is to run.
    pub(crate) fn next(&self, key: impl FnOnce() -> ScriptKey) -> Option<ScriptedResult> {
        let mut results = self.0.as_ref()?.lock();
        results.get_mut(&key())?.pop_front()
    }
}
