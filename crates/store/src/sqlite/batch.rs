//! Reads the rows that a batch needs, and writes those of its plan.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params_from_iter};

use super::{readers::answer, row::each_row};
use crate::{
    EntityId, Head, Position, Query, StoreError, Version,
    plan::{Facts, Needs, Plan},
    sql::{CHANGES, READS, RowReader, Value, Values},
};

/// A cache of rows that the one writer has written.
#[derive(Default)]
pub(super) struct WriterCache {
    /// The origin, the version and the position of the last message.
    streams: HashMap<EntityId, (Position, Version, Position)>,
    entities: HashSet<EntityId>,
    heads: HashMap<EntityId, Head>,
}

impl WriterCache {
    /// Beyond this, some 6 MB, it is cleared; rows in use are soon cached again.
    const MAX: usize = 32_768;

    /// Adds the rows of a durable plan.
    pub(super) fn learn(&mut self, plan: &Plan) {
        if Self::MAX < self.streams.len() + self.entities.len() + self.heads.len() {
            *self = Self::default();
        }
        for entity in &plan.gone {
            self.streams.remove(entity);
            self.entities.remove(entity);
        }
        self.entities.extend(plan.runs.iter().map(|(_, it)| it.run.id()));
        for row in &plan.messages {
            self.streams.insert(row.stream, (row.origin, row.version, row.position));
            self.entities.insert(row.stream);
            self.entities.extend(row.target);
        }
        if !plan.heads_gone.is_empty() {
            self.heads.retain(|_, head| !plan.heads_gone.contains(&head.base.number));
        }
        for head in &plan.heads {
            self.entities.insert(head.base.entity);
            self.heads.insert(head.base.entity, *head);
        }
    }

    /// Adds what it knows to the facts, and leaves the needs that must be read.
    fn load(&self, needs: &mut Needs, facts: &mut Facts) {
        // The ends of streams tell whether their entities exist.
        let Needs { streams, entities, heads, .. } = needs;
        entities.retain(|id| streams.binary_search(id).is_err());
        entities.retain(|id| {
            let is_known = self.entities.contains(id);
            facts.entities.extend(is_known.then_some(*id));
            !is_known
        });
        streams.retain(|id| {
            let known = self.streams.get(id);
            if let Some((origin, version, last)) = known {
                facts.load_stream(*id, Some(*origin), *version, Some(*last));
            }
            known.is_none()
        });
        heads.retain(|id| {
            let known = self.heads.get(id);
            if let Some(head) = known {
                facts.heads.load(*id, *head);
            }
            known.is_none()
        });
    }
}

/// Reads the rows that a batch needs.
pub(super) fn read(
    connection: &Connection,
    mut needs: Needs,
    known: &WriterCache,
) -> Result<Facts, StoreError> {
    let mut facts = Facts::default();
    if let Some(sweep) = needs.sweep {
        let found = answer(connection, Query::candidates(sweep, sweep.list.page()))?;
        facts.candidates = found.into_candidates();
        needs.add_candidates(&facts.candidates);
    }
    known.load(&mut needs, &mut facts);
    let mut values: Values<'_> = [Value::Null; _];
    for read in READS.iter() {
        for key in 0..read.keys.len(&needs) {
            let columns = read.keys.row(&needs, key, &mut values);
            let params = params_from_iter(&values[..columns]);
            let mut found = false;
            each_row(connection, &read.sql.sqlite, params, |row| {
                found = true;
                (read.load)(&mut RowReader::new(row), &mut facts)
            })?;
            if read.must_find && !found {
                return Err(StoreError::corrupt("the counter is missing"));
            }
        }
    }
    Ok(facts)
}

/// Writes the rows of a plan.
pub(super) fn write(connection: &Connection, plan: &Plan) -> rusqlite::Result<()> {
    let mut values: Values<'_> = [Value::Null; _];
    for change in CHANGES.iter() {
        let rows = change.rows.len(plan);
        if rows == 0 {
            continue;
        }
        let mut statement = connection.prepare_cached(&change.sql.sqlite)?;
        for row in 0..rows {
            let columns = change.rows.row(plan, row, &mut values);
            // Not every statement has a parameter for each value.
            for (index, value) in (1..=statement.parameter_count()).zip(&values[..columns]) {
                statement.raw_bind_parameter(index, value)?;
            }
            statement.raw_execute()?;
        }
    }
    Ok(())
}
