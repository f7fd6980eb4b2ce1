//! The inputs of the steps of a run, for views: a driver does not need them. The input of a call is
//! recorded with its first attempt, and that of a send is the message that follows its entry.

use std::collections::HashMap;

use steadfast_store::{EntityId, Recorded, Store, StoreError};

use super::record::{Entry, Key, StepInput};

/// The inputs that the record has, by step.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    known: HashMap<Key, StepInput>,
    /// Sends whose receivers are known by id alone.
    unnamed: Vec<(Key, EntityId)>,
    /// The send whose message comes next.
    send: Option<Key>,
}

impl Inputs {
    pub(super) fn of(&self, key: &Key) -> Option<&StepInput> {
        self.known.get(key)
    }

    /// Reads one message of the record, in order.
    pub(super) fn take(&mut self, message: &Recorded, entry: Option<&Entry>) {
        let send = self.send.take();
        let Some(entry) = entry else {
            if let (Some(key), Some(target)) = (send, message.target) {
                let input = StepInput::new(target.to_string(), message.data.as_str());
                self.known.insert(key.clone(), input);
                self.unnamed.push((key, target));
            }
            return;
        };
        if let Entry::Done { key, .. } = entry
            && key.kind == "send"
        {
            self.send = Some(key.clone());
        }
        if let Some((key, input)) = entry.input() {
            self.known.insert(key.clone(), input.clone());
        }
    }

    /// Removes those of other steps.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Key) -> bool) {
        self.known.retain(|key, _| is_kept(key));
        self.unnamed.retain(|it| is_kept(&it.0));
    }

    /// Reads the addresses of receivers.
    pub(super) async fn name_receivers(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let mut ids: Vec<EntityId> = self.unnamed.iter().map(|it| it.1).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(());
        }
        let addresses = store.addresses(&ids).await?;
        for (key, id) in self.unnamed.drain(..) {
            if let (Some(input), Some(address)) = (self.known.get_mut(&key), addresses.get(&id)) {
                input.to = address.to_string();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::record::INPUT_BYTES_MAX;

    #[test]
    fn a_large_or_deep_message_is_left_out_of_the_record() {
        let body = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
        let small = StepInput::new("object/a/b".into(), &body(INPUT_BYTES_MAX));
        assert!(small.message.is_some() && small.bytes == INPUT_BYTES_MAX);
        let large = StepInput::new("object/a/b".into(), &body(INPUT_BYTES_MAX + 1));
        assert_eq!((large.message, large.bytes), (None, INPUT_BYTES_MAX + 1));
        // An entry with it can be recorded, whatever its depth.
        for depth in 120..=127 {
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let input = Some(StepInput::new("object/a/b".into(), &deep));
            assert_eq!(input.as_ref().is_some_and(|it| it.message.is_some()), depth <= 125);
            let key: Key =
                serde_json::from_str(r#"{"kind":"call","name":"add","count":1}"#).unwrap();
            let (value, attempt) = (serde_json::Value::Null, None);
            let entry = Entry::Done { key, value, attempt, input };
            assert!(entry.message().is_ok(), "{depth}");
        }
    }
}
