//! The statements of the sweep, and decoding of their rows.

use super::Fields;
use crate::{
    EntityId, ExpiryList, ExpiryRow, KeyName, StoreError, Timestamp,
    plan::{DeadBrief, Erasure},
};

pub(super) const EXPIRING: &str = "SELECT list, since, position, entity FROM expiring \
     WHERE list = ?1 AND since < ?2 ORDER BY since, position, entity LIMIT ?3";
pub(super) const ALL_EXPIRING: &str = "SELECT list, since, position, entity FROM expiring \
     ORDER BY list, since, position, entity";
pub(super) const ALL_DEPTHS: &str =
    "SELECT queue, waiting, dead FROM depth WHERE waiting <> 0 OR dead <> 0 ORDER BY queue";

pub(super) const EXPIRED_KEYS: &str = "SELECT scope, key FROM idempotency \
     WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// An entity that is to be deleted, if it has ended: its first pending message, or work for it;
/// whether it is a run; the last version that is deleted now, if its record is too long; the number
/// of messages that are deleted; its origin; when its last message was written; and whether it is
/// detached.
pub(crate) const ERASURE: &str = "SELECT e.id, coalesce((SELECT m.position FROM message m \
     JOIN work w ON w.position = m.position WHERE m.origin = e.origin \
     ORDER BY m.version LIMIT 1), (SELECT min(found.position) FROM (\
     SELECT w.position FROM work w WHERE w.target = e.id AND w.ordered UNION ALL \
     SELECT w.position FROM work w WHERE w.target = e.id AND NOT w.ordered) AS found)), \
     CASE WHEN EXISTS (SELECT 1 FROM run r WHERE r.number = e.origin) THEN 1 ELSE 0 END, \
     (SELECT m.version - 1 FROM message m WHERE m.origin = e.origin ORDER BY m.version \
     LIMIT 1 OFFSET 2000), \
     (SELECT count(*) FROM (SELECT 1 AS one FROM message m WHERE m.origin = e.origin \
     LIMIT 2000) AS found), e.origin, (SELECT m.created_at FROM message m \
     WHERE m.origin = e.origin ORDER BY m.version DESC LIMIT 1), \
     CASE WHEN e.kind = 'system' THEN 1 ELSE 0 END \
     FROM entity e WHERE e.id = ?1 AND (e.kind = 'run' \
     OR (e.kind = 'process' AND (e.closed_at IS NOT NULL OR e.origin IS NULL)) \
     OR (e.kind = 'object' AND NOT EXISTS (SELECT 1 FROM base b WHERE b.entity = e.id)) \
     OR (e.kind = 'system' AND e.class = 'erased'))";

/// The dead messages of an entity that is to be deleted.
pub(crate) const ERASURE_DEAD: &str = "SELECT e.id, m.position, m.version, o.queue, o.settled_at \
     FROM entity e JOIN message m ON m.origin = e.origin \
     JOIN outcome o ON o.position = m.position AND o.state = 'dead' \
     WHERE e.id = ?1 ORDER BY m.version";

pub(super) fn expiring(row: &dyn Fields) -> Result<ExpiryRow, StoreError> {
    let tag = row.text(0)?;
    let list = ExpiryList::from_tag(&tag)
        .ok_or_else(|| StoreError::corrupt(format!("unknown list `{tag}`")))?;
    Ok(ExpiryRow { list, since: row.time(1)?, position: row.int(2)?, entity: row.id(3)? })
}

pub(super) fn depth_row(row: &dyn Fields) -> Result<(EntityId, i64, i64), StoreError> {
    Ok((row.id(0)?, row.int(1)?, row.int(2)?))
}

pub(super) fn key_name(row: &dyn Fields) -> Result<KeyName, StoreError> {
    Ok(KeyName { scope: row.id(0)?, key: row.text(1)?.into() })
}

pub(crate) fn erasure(row: &dyn Fields) -> Result<(EntityId, Erasure), StoreError> {
    let (work, is_run) = (row.maybe_int(1)?, row.int(2)? != 0);
    let (cut, messages, dead) = (row.maybe_int(3)?, row.count(4)? as usize, Vec::new());
    let (origin, last_at) = (row.maybe_int(5)?, row.maybe_int(6)?.map(Timestamp));
    let is_aside = row.int(7)? != 0;
    let found = Erasure { work, is_run, is_aside, dead, cut, messages, origin, last_at };
    Ok((row.id(0)?, found))
}

pub(crate) fn dead_brief(row: &dyn Fields) -> Result<(EntityId, DeadBrief), StoreError> {
    let (position, version, queue) = (row.int(1)?, row.int(2)?, row.maybe_id(3)?);
    Ok((row.id(0)?, DeadBrief { position, version, queue, at: row.time(4)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::ERASED_MAX,
        sql::plans::{has, steps},
    };

    #[test]
    fn the_sweep_walks_an_index() {
        for (statement, index) in [
            (EXPIRING, "PRIMARY KEY (list=? AND since<?)"),
            (EXPIRED_KEYS, "idempotency_expires (expires_at<?)"),
            (ERASURE_DEAD, "message_stream (origin=?)"),
        ] {
            let steps = steps(statement);
            assert!(has(&steps, index) && !has(&steps, "B-TREE"), "{steps:#?}");
        }
        assert!(has(&steps(ERASURE), "message_stream (origin=?)"));
        assert!(ERASURE.contains(&format!("LIMIT {ERASED_MAX})")));
        assert!(ERASURE.contains(&format!("OFFSET {ERASED_MAX})")));
    }
}
