//! Finds the object or the turn to inspect.

use std::sync::Arc;

use steadfast_store::{self as store, EntityKind, Head, Store, TurnSummary};

use super::{
    super::{Objects, storage::HistoryError},
    Permit,
    error::InspectError,
    in_time,
};

/// Turns read at once while one is searched.
const WALK: usize = 1_000;

impl Objects {
    /// Whether this program serves a class.
    pub fn serves(&self, class: &str) -> bool {
        self.program.classes.contains_key(class)
    }

    /// Whether an object is in memory.
    pub fn is_awake(&self, object: &store::Address) -> bool {
        self.scheduler.table.contains(object.id())
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.scheduler.store
    }

    pub(super) async fn permit(&self, caller: Option<&str>) -> Result<Permit, InspectError> {
        Ok(Arc::new(in_time(self.program.inspection.reads.take(caller)).await?))
    }

    pub(super) async fn check_class(&self, class: &str) -> Result<(), InspectError> {
        if self.serves(class) || self.store().count_objects(class, 1).await? == 1 {
            return Ok(());
        }
        Err(InspectError::UnknownClass { class: class.into() })
    }

    /// An object that exists.
    pub(super) async fn find(
        &self,
        class: &str,
        name: &str,
    ) -> Result<(store::Address, Head), InspectError> {
        let object = store::Address::new(EntityKind::Object, class, name)?;
        if let Some(head) = self.store().head(object.id()).await? {
            return Ok((object, head));
        }
        self.check_class(class).await?;
        Err(InspectError::UnknownObject { object: object.to_string() })
    }

    pub(super) async fn find_turn(
        &self,
        object: &store::Address,
        head: &Head,
        turn: i64,
    ) -> Result<TurnSummary, InspectError> {
        let (mut position, mut oldest) = (head.position, head.seq);
        loop {
            let turns = self.store().turn_summaries(position, WALK).await?;
            let Some(last) = turns.last() else {
                let object = object.to_string();
                return Err(HistoryError::Forgotten { object, turn, oldest }.into());
            };
            (position, oldest) = (last.prev, last.seq - 1);
            if let Some(found) = turns.into_iter().find(|it| it.seq == turn) {
                return Ok(found);
            }
        }
    }
}
