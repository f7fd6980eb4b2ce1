//! The last failed turn of objects, for diagnosis. In memory: a failed turn changes nothing.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{EntityId, Timestamp, limits};

use crate::{object::CallError, workflow::Time};

/// Maximum objects with a recorded failure; beyond it the oldest are dropped.
const OBJECTS_MAX: usize = 1_000;

/// The last failed turn of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = FailureEntry))]
pub struct LastFailure {
    /// When.
    pub at: Time,
    /// The message.
    pub input: String,
    /// The stable code.
    pub code: String,
    /// The error.
    pub message: String,
}

/// The last failures. Successful turns never touch it.
#[derive(Debug, Default)]
pub(in crate::object) struct Failures {
    known: Mutex<FailureTable>,
}

#[derive(Debug, Default)]
struct FailureTable {
    count: u64,
    by_object: HashMap<EntityId, (u64, LastFailure)>,
    by_age: BTreeMap<u64, EntityId>,
}

impl Failures {
    pub(in crate::object) fn note(
        &self,
        object: EntityId,
        at: Timestamp,
        input: &str,
        error: &CallError,
    ) {
        let mut message = error.to_string();
        message.truncate(message.floor_char_boundary(limits::ERROR_BYTES_MAX));
        let (at, code) = (Time(at), error.code().into());
        let failure = LastFailure { at, input: input.into(), code, message };
        let mut known = self.known();
        known.count += 1;
        let number = known.count;
        if let Some((before, _)) = known.by_object.insert(object, (number, failure)) {
            known.by_age.remove(&before);
        }
        known.by_age.insert(number, object);
        if OBJECTS_MAX < known.by_object.len()
            && let Some((_, oldest)) = known.by_age.pop_first()
        {
            known.by_object.remove(&oldest);
        }
    }

    pub(in crate::object) fn of(&self, object: EntityId) -> Option<LastFailure> {
        self.known().by_object.get(&object).map(|(_, failure)| failure.clone())
    }

    /// Removes the failure of a deleted object.
    pub(in crate::object) fn forget(&self, object: EntityId) {
        let mut known = self.known();
        if let Some((number, _)) = known.by_object.remove(&object) {
            known.by_age.remove(&number);
        }
    }

    fn known(&self) -> parking_lot::MutexGuard<'_, FailureTable> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_of_each_is_kept_and_the_oldest_of_all_goes() {
        let failures = Failures::default();
        let id = |number: usize| EntityId((number as u128).to_be_bytes());
        let busy = CallError::Busy { object: "x".repeat(5_000) };
        for number in 0..OBJECTS_MAX {
            failures.note(id(number), Timestamp(1), "add", &busy);
        }
        failures.note(id(0), Timestamp(2), "sub", &busy);
        failures.note(id(OBJECTS_MAX), Timestamp(3), "add", &busy);
        let first = failures.of(id(0)).unwrap();
        assert_eq!((first.at, &*first.input, &*first.code), (Time(Timestamp(2)), "sub", "busy"));
        assert_eq!(first.message.len(), limits::ERROR_BYTES_MAX);
        assert_eq!(failures.of(id(1)), None);
        assert!(failures.of(id(2)).is_some());
        failures.forget(id(2));
        assert_eq!(failures.of(id(2)), None);
        let known = failures.known();
        assert_eq!(known.by_object.len(), known.by_age.len());
    }
}
