//! The addresses behind the ids of some messages, read at once.

use std::collections::{BTreeSet, HashMap};

use steadfast_store::{Address, EntityId, Recorded, Store, StoreError};

/// Addresses by id.
#[derive(Debug, Default)]
pub(crate) struct Addresses(HashMap<EntityId, Address>);

impl Addresses {
    /// Reads the addresses of the streams and targets of `messages`.
    pub(crate) async fn read(store: &dyn Store, messages: &[Recorded]) -> Result<Self, StoreError> {
        let named = messages.iter().flat_map(|it| [Some(it.stream), it.target]);
        let ids: BTreeSet<EntityId> = named.flatten().collect();
        let ids: Vec<EntityId> = ids.into_iter().collect();
        Ok(Self(store.addresses(&ids).await?))
    }

    /// The address; the id itself if it is not known.
    pub(crate) fn of(&self, id: EntityId) -> String {
        self.0.get(&id).map_or_else(|| id.to_string(), Address::to_string)
    }
}
