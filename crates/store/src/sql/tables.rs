//! The tables of a store: their columns, keys and rows. Statements, parameters, reads and the dump
//! are made of these; `schema/*.sql` creates them, and a test compares both.

use super::{
    statement::{RowReader, Value},
    table::{
        Column,
        Kind::{BigInt, Boolean, Bytes, Integer, SmallInt, Text},
        Stored, derived, fixed, guard, key, plain, sum,
    },
};
use crate::{
    Attempt, Base, EntityId, EntityKind, Entry, EntryKey, ExpiryRow, Head, Lease, PageImage,
    Position, RecordedTurn, RunSummary, Settlement, Snapshot, StoreError, Work,
    plan::{EntityRow, KeyRow, MessageRow},
};

impl Stored for EntityRow {
    const TABLE: &'static str = "entity";
    const COLUMNS: &'static [Column<Self>] = &[
        derived(key("id", Bytes, |it| it.address.id().into())),
        derived(fixed("shard", SmallInt, |it| it.address.id().shard().into())),
        fixed("kind", Text, |it| it.address.kind().tag().into()),
        fixed("class", Text, |it| it.address.class().into()),
        fixed("name", Text, |it| it.address.name().into()),
        fixed("created_at", BigInt, |it| it.created_at.into()),
        guard("closed_at", BigInt, |it| it.closed_at.into()),
        guard("origin", BigInt, |it| it.origin.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            address: row.address()?,
            created_at: row.time()?,
            closed_at: row.maybe_time()?,
            origin: row.maybe_int()?,
        })
    }
}

impl Stored for MessageRow {
    const TABLE: &'static str = "message";
    const COLUMNS: &'static [Column<Self>] = &[
        key("position", BigInt, |it| it.position.into()),
        fixed("stream", Bytes, |it| it.stream.into()),
        fixed("version", BigInt, |it| it.version.into()),
        fixed("kind", Text, |it| it.kind.tag().into()),
        fixed("direction", Text, |it| it.direction.tag().into()),
        fixed("action", Text, |it| (&*it.action).into()),
        fixed("type", Text, |it| (&*it.message_type).into()),
        fixed("schema", Integer, |it| it.schema.into()),
        fixed("data", Text, |it| (&it.data).into()),
        fixed("metadata", Text, |it| (&it.metadata).into()),
        fixed("target", Bytes, |it| it.target.into()),
        fixed("ordered", Boolean, |it| it.ordered.into()),
        fixed("cause", BigInt, |it| it.cause.into()),
        fixed("created_at", BigInt, |it| it.created_at.into()),
        fixed("origin", BigInt, |it| it.origin.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            position: row.int()?,
            stream: row.id()?,
            version: row.int()?,
            kind: row.tag("message kind")?,
            direction: row.tag("direction")?,
            action: row.text()?.into(),
            message_type: row.text()?.into(),
            schema: row.small()?,
            data: row.json()?,
            metadata: row.json()?,
            target: row.maybe_id()?,
            ordered: row.flag()?,
            cause: row.maybe_int()?,
            created_at: row.time()?,
            origin: row.int()?,
        })
    }
}

impl Stored for Work {
    const TABLE: &'static str = "work";
    const COLUMNS: &'static [Column<Self>] = &[
        key("position", BigInt, |it| it.position.into()),
        derived(plain("shard", SmallInt, |it| it.target.shard().into())),
        guard("target", Bytes, |it| it.target.into()),
        plain("ordered", Boolean, |it| it.ordered.into()),
        guard("due_at", BigInt, |it| it.due_at.into()),
        guard("attempts", Integer, |it| it.attempts.into()),
        guard("forgiven", Integer, |it| it.forgiven.into()),
        guard("holder", BigInt, |it| it.claim.map(|(lease, _)| lease.holder).into()),
        guard("lease", BigInt, |it| it.claim.map(|(lease, _)| lease.number).into()),
        plain("claimed_at", BigInt, |it| it.claim.map(|(_, at)| at).into()),
        plain("queued", Boolean, |it| it.queued.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let (position, target, ordered) = (row.int()?, row.id()?, row.flag()?);
        let (due_at, attempts, forgiven) = (row.time()?, row.count()?, row.count()?);
        let claim = match lease(row)? {
            Some(lease) => Some((lease, row.time()?)),
            None => {
                row.skip(1);
                None
            }
        };
        let queued = row.flag()?;
        Ok(Self { position, target, ordered, due_at, attempts, forgiven, claim, queued })
    }
}

/// The columns `holder` and `lease`.
pub(super) fn lease(row: &mut RowReader<'_>) -> Result<Option<Lease>, StoreError> {
    let Some(holder) = row.maybe_int()? else {
        row.skip(1);
        return Ok(None);
    };
    Ok(Some(Lease { holder, number: row.int()? }))
}

impl Stored for (Position, Settlement) {
    const TABLE: &'static str = "outcome";
    const COLUMNS: &'static [Column<Self>] = &[
        key("position", BigInt, |it| it.0.into()),
        guard("state", Text, |it| it.1.as_.tag().into()),
        guard("settled_at", BigInt, |it| it.1.at.into()),
        guard("attempts", Integer, |it| it.1.attempts.into()),
        plain("error", Text, |it| it.1.error.as_deref().into()),
        plain("queue", Bytes, |it| it.1.queue.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let position = row.int()?;
        let settled = Settlement {
            as_: row.tag("outcome")?,
            at: row.time()?,
            attempts: row.count()?,
            error: row.maybe_text()?,
            queue: row.maybe_id()?,
        };
        Ok((position, settled))
    }
}

impl Stored for Attempt {
    const TABLE: &'static str = "attempt";
    const COLUMNS: &'static [Column<Self>] = &[
        key("position", BigInt, |it| it.position.into()),
        key("number", Integer, |it| it.number.into()),
        fixed("started_at", BigInt, |it| it.started_at.into()),
        fixed("ended_at", BigInt, |it| it.ended_at.into()),
        fixed("error", Text, |it| it.error.as_str().into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            position: row.int()?,
            number: row.count()?,
            started_at: row.time()?,
            ended_at: row.time()?,
            error: row.text()?,
        })
    }
}

/// The numbers of waiting and dead messages of a queue.
impl Stored for (EntityId, i64, i64) {
    const TABLE: &'static str = "depth";
    const COLUMNS: &'static [Column<Self>] = &[
        key("queue", Bytes, |it| it.0.into()),
        sum("waiting", BigInt, |it| it.1.into()),
        sum("dead", BigInt, |it| it.2.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok((row.id()?, row.int()?, row.int()?))
    }
}

impl Stored for Snapshot {
    const TABLE: &'static str = "snapshot";
    const COLUMNS: &'static [Column<Self>] = &[
        key("entity", Bytes, |it| it.stream.into()),
        guard("version", BigInt, |it| it.version.into()),
        guard("code", Integer, |it| it.code.into()),
        plain("state", Text, |it| (&it.state).into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self { stream: row.id()?, version: row.int()?, code: row.small()?, state: row.json()? })
    }
}

impl Stored for KeyRow {
    const TABLE: &'static str = "idempotency";
    const COLUMNS: &'static [Column<Self>] = &[
        key("scope", Bytes, |it| it.scope.into()),
        key("key", Text, |it| (&*it.key).into()),
        guard("request_hash", Bytes, |it| Value::Bytes(&it.request_hash)),
        guard("position", BigInt, |it| it.position.into()),
        plain("status", Integer, |it| it.status.into()),
        plain("reply", Text, |it| it.reply.as_ref().into()),
        guard("expires_at", BigInt, |it| it.expires_at.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let wrong = |_| StoreError::corrupt("request hash of a wrong length");
        Ok(Self {
            scope: row.id()?,
            key: row.text()?.into(),
            request_hash: row.bytes()?.try_into().map_err(wrong)?,
            position: row.int()?,
            status: row.small()?,
            reply: row.maybe_json()?,
            expires_at: row.time()?,
        })
    }
}

impl Stored for ExpiryRow {
    const TABLE: &'static str = "expiring";
    const COLUMNS: &'static [Column<Self>] = &[
        key("list", Text, |it| it.list.tag().into()),
        key("since", BigInt, |it| it.since.into()),
        key("position", BigInt, |it| it.position.into()),
        key("entity", Bytes, |it| it.entity.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let (list, since) = (row.tag("list")?, row.time()?);
        Ok(Self { list, since, position: row.int()?, entity: row.id()? })
    }
}

/// The base follows: [`super::objects`] reads both.
impl Stored for Head {
    const TABLE: &'static str = "head";
    const COLUMNS: &'static [Column<Self>] = &[
        derived(key("number", BigInt, |it| it.base.number.into())),
        guard("seq", BigInt, |it| it.seq.into()),
        plain("position", BigInt, |it| it.position.into()),
        guard("chk", BigInt, |it| it.chk.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let (seq, position, chk) = (row.int()?, row.int()?, row.count()?);
        Ok(Self { seq, position, chk, base: Base::read(row)? })
    }
}

impl Stored for Base {
    const TABLE: &'static str = "base";
    const COLUMNS: &'static [Column<Self>] = &[
        key("entity", Bytes, |it| it.entity.into()),
        guard("number", BigInt, |it| it.number.into()),
        guard("seq", BigInt, |it| it.seq.into()),
        plain("position", BigInt, |it| it.position.into()),
        plain("chk", BigInt, |it| it.chk.into()),
        plain("pages", BigInt, |it| it.pages.into()),
        guard("history_bytes", BigInt, |it| it.history_bytes.into()),
        guard("parts_seq", BigInt, |it| it.parts_seq.into()),
        guard("parts", BigInt, |it| it.parts.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            entity: row.id()?,
            number: row.int()?,
            seq: row.int()?,
            position: row.int()?,
            chk: row.count()?,
            pages: row.count()?,
            history_bytes: row.int()?,
            parts_seq: row.int()?,
            parts: row.int()?,
        })
    }
}

impl Stored for RecordedTurn {
    const TABLE: &'static str = "turn";
    const COLUMNS: &'static [Column<Self>] = &[
        key("position", BigInt, |it| it.position.into()),
        fixed("entity", Bytes, |it| it.entity.into()),
        fixed("seq", BigInt, |it| it.seq.into()),
        fixed("prev", BigInt, |it| it.prev.into()),
        fixed("at", BigInt, |it| it.at.into()),
        fixed("cause", BigInt, |it| it.cause.into()),
        fixed("sent", BigInt, |it| it.sent.into()),
        fixed("chk", BigInt, |it| it.chk.into()),
        fixed("input", Text, |it| (&*it.input).into()),
        fixed("delta", Bytes, |it| (&*it.delta).into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            position: row.int()?,
            entity: row.id()?,
            seq: row.int()?,
            prev: row.int()?,
            at: row.time()?,
            cause: row.maybe_int()?,
            sent: row.count()?,
            chk: row.count()?,
            input: row.text()?.into(),
            delta: row.bytes()?.into(),
        })
    }
}

/// An image of a page of an object.
impl Stored for (EntityId, PageImage) {
    const TABLE: &'static str = "image";
    const COLUMNS: &'static [Column<Self>] = &[
        key("entity", Bytes, |it| it.0.into()),
        key("page", BigInt, |it| it.1.page.into()),
        guard("seq", BigInt, |it| it.1.seq.into()),
        plain("crc", BigInt, |it| it.1.crc.into()),
        plain("data", Bytes, |it| (&*it.1.data).into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok((row.id()?, read_image(row)?))
    }
}

pub(super) fn read_image(row: &mut RowReader<'_>) -> Result<PageImage, StoreError> {
    let (page, seq, crc) = (row.count()?, row.int()?, row.count()?);
    Ok(PageImage { page, seq, crc, data: row.bytes()?.into() })
}

/// A run, with the origin of its stream.
impl Stored for (Position, RunSummary) {
    const TABLE: &'static str = "run";
    const COLUMNS: &'static [Column<Self>] = &[
        key("number", BigInt, |it| it.0.into()),
        derived(fixed("entity", Bytes, |it| it.1.run.id().into())),
        fixed("workflow", Text, |it| it.1.run.class().into()),
        fixed("name", Text, |it| it.1.run.name().into()),
        guard("status", Text, |it| it.1.status.tag().into()),
        fixed("created_at", BigInt, |it| it.1.created_at.into()),
        guard("changed_at", BigInt, |it| it.1.changed_at.into()),
        guard("expires_at", BigInt, |it| it.1.expires_at.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        let number = row.int()?;
        let run = RunSummary {
            run: row.named(EntityKind::Run)?,
            status: row.tag("status")?,
            created_at: row.time()?,
            changed_at: row.time()?,
            expires_at: row.maybe_time()?,
        };
        Ok((number, run))
    }
}

impl Stored for Entry {
    const TABLE: &'static str = "entry";
    const COLUMNS: &'static [Column<Self>] = &[
        key("space", Text, |it| it.entry.space().into()),
        key("key", Bytes, |it| it.entry.key().into()),
        guard("revision", BigInt, |it| it.revision.into()),
        plain("value", Text, |it| it.value.as_ref().into()),
        plain("reference", Bytes, |it| it.reference.into()),
        guard("changed_at", BigInt, |it| it.changed_at.into()),
        plain("expires_at", BigInt, |it| it.expires_at.into()),
    ];

    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            entry: EntryKey::stored(&row.text()?, row.bytes()?),
            revision: row.int()?,
            value: row.maybe_json()?,
            reference: row.maybe_id()?,
            changed_at: row.time()?,
            expires_at: row.maybe_time()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::sql::{
        migrations::BASELINE,
        table::{Kind, Role},
    };

    /// The columns of a table, in capitals: their types, and whether they are of the key.
    type Columns = BTreeMap<String, (String, bool)>;

    fn described<R: Stored>(is_sqlite: bool) -> (String, Columns) {
        let kind = |kind: Kind| match (kind, is_sqlite) {
            (Text, _) => "TEXT".into(),
            (Bytes, true) => "BLOB".into(),
            (_, true) => "INTEGER".into(),
            (_, false) => kind.name().to_uppercase(),
        };
        let column =
            |it: &Column<R>| (it.name.to_uppercase(), (kind(it.kind), it.role == Role::Key));
        (R::TABLE.to_uppercase(), R::COLUMNS.iter().map(column).collect())
    }

    /// The tables that a schema creates.
    fn created(sql: &str) -> BTreeMap<String, Columns> {
        let lines = sql.lines().map(|it| it.split("--").next().unwrap_or_default());
        let sql = lines.collect::<String>().to_uppercase();
        let tables = sql.split("CREATE TABLE ").skip(1).filter_map(|it| it.split_once(" ("));
        let table = |(name, rest): (&str, &str)| {
            let mut columns = Columns::new();
            let mut key = BTreeSet::new();
            // The table ends before a bracket that it did not open.
            let mut depth = 0;
            let end = rest.find(|it| {
                depth += i32::from(it == '(') - i32::from(it == ')');
                depth < 0
            });
            let rest = &rest[..end.unwrap()];
            let (columns_of, keys) = rest.split_once("PRIMARY KEY (").unwrap_or((rest, ""));
            key.extend(keys.trim().trim_end_matches(')').split(", ").map(str::to_owned));
            for column in columns_of.split(',').map(str::trim).filter(|it| !it.is_empty()) {
                let mut words = column.split_whitespace();
                let (name, kind) = (words.next().unwrap(), words.next().unwrap());
                let is_key = column.contains("PRIMARY KEY") || key.contains(name);
                columns.insert(name.into(), (kind.into(), is_key));
            }
            (name.into(), columns)
        };
        tables.map(table).collect()
    }

    #[test]
    fn both_schemas_have_the_tables_and_columns_that_are_described() {
        for (sql, is_sqlite) in [(BASELINE.sqlite, true), (BASELINE.postgres, false)] {
            let mut created = created(sql);
            // They have one row, or none that a commit writes.
            for other in ["META", "COUNTER", "NODE", "LOSS"] {
                assert_eq!(created.remove(other).is_some(), other != "LOSS" || !is_sqlite);
            }
            let described = BTreeMap::from([
                described::<EntityRow>(is_sqlite),
                described::<MessageRow>(is_sqlite),
                described::<Work>(is_sqlite),
                described::<(Position, Settlement)>(is_sqlite),
                described::<Attempt>(is_sqlite),
                described::<(EntityId, i64, i64)>(is_sqlite),
                described::<Snapshot>(is_sqlite),
                described::<KeyRow>(is_sqlite),
                described::<ExpiryRow>(is_sqlite),
                described::<Head>(is_sqlite),
                described::<Base>(is_sqlite),
                described::<RecordedTurn>(is_sqlite),
                described::<(EntityId, PageImage)>(is_sqlite),
                described::<(Position, RunSummary)>(is_sqlite),
                described::<Entry>(is_sqlite),
            ]);
            assert_eq!(created, described);
        }
    }
}
