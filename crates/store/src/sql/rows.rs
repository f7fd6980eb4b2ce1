//! Decodes rows.

use super::Fields;
use crate::{
    Address, Attempt, Base, Direction, EntityId, EntityKind, Head, Json, Lease, MessageKind,
    ObjectSummary, OldTurn, PageImage, Position, Recorded, RecordedTurn, RunStatus, RunSummary,
    SettledAs, Settlement, Snapshot, State, StoreError, StreamSummary, Timestamp, Totals,
    TurnSummary, Work,
    plan::{EntityRow, KeyRow, MessageRow, TurnBrief},
};

pub(super) fn recorded(row: &dyn Fields) -> Result<Recorded, StoreError> {
    let message = message_row(row)?;
    let state = match (row.maybe_int(15)?, row.maybe_text(19)?) {
        (Some(due_at), _) => Some(pending_state(row, Timestamp(due_at))?),
        (None, Some(state)) => Some(State::Settled(Settlement {
            as_: settled_as(&state)?,
            at: row.time(20)?,
            attempts: row.count(21)?,
            error: row.maybe_text(22)?,
            queue: row.maybe_id(24)?,
        })),
        (None, None) => None,
    };
    Ok(message.recorded(state, row.maybe_text(23)?))
}

fn pending_state(row: &dyn Fields, due_at: Timestamp) -> Result<State, StoreError> {
    let attempts = row.count(16)?;
    Ok(match lease(row, 17)? {
        Some(lease) => State::InFlight { lease, until: due_at, attempts },
        None => State::Pending { due_at, attempts },
    })
}

fn lease(row: &dyn Fields, index: usize) -> Result<Option<Lease>, StoreError> {
    let Some(holder) = row.maybe_int(index)? else { return Ok(None) };
    Ok(Some(Lease { holder, number: row.int(index + 1)? }))
}

pub(super) fn message_row(row: &dyn Fields) -> Result<MessageRow, StoreError> {
    Ok(MessageRow {
        position: row.int(0)?,
        stream: row.id(1)?,
        version: row.int(2)?,
        kind: message_kind(&row.text(3)?)?,
        direction: direction(&row.text(4)?)?,
        action: row.text(5)?.into(),
        message_type: row.text(6)?.into(),
        schema: row.small(7)?,
        data: Json::stored(&row.text(8)?),
        metadata: Json::stored(&row.text(9)?),
        target: row.maybe_id(10)?,
        ordered: row.int(11)? != 0,
        cause: row.maybe_int(12)?,
        created_at: row.time(13)?,
        origin: row.int(14)?,
    })
}

pub(crate) fn work(row: &dyn Fields) -> Result<Work, StoreError> {
    let claim = match lease(row, 6)? {
        Some(lease) => Some((lease, row.time(8)?)),
        None => None,
    };
    Ok(Work {
        position: row.int(0)?,
        target: row.id(1)?,
        ordered: row.int(2)? != 0,
        due_at: row.time(3)?,
        attempts: row.count(4)?,
        forgiven: row.count(5)?,
        claim,
        queued: row.int(9)? != 0,
    })
}

pub(super) fn attempt(row: &dyn Fields) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        position: row.int(0)?,
        number: row.count(1)?,
        started_at: row.time(2)?,
        ended_at: row.time(3)?,
        error: row.text(4)?,
    })
}

pub(crate) fn settled_row(row: &dyn Fields) -> Result<(Position, Settlement), StoreError> {
    let settled = Settlement {
        as_: settled_as(&row.text(1)?)?,
        at: row.time(2)?,
        attempts: row.count(3)?,
        error: row.maybe_text(4)?,
        queue: row.maybe_id(5)?,
    };
    Ok((row.int(0)?, settled))
}

pub(super) fn address(row: &dyn Fields) -> Result<Address, StoreError> {
    let tag = row.text(0)?;
    let kind = EntityKind::from_tag(&tag);
    let kind = kind.ok_or_else(|| StoreError::corrupt(format!("unknown kind `{tag}`")))?;
    Address::new(kind, &row.text(1)?, &row.text(2)?)
        .map_err(|error| StoreError::corrupt(error.to_string()))
}

pub(super) fn entity_row(row: &dyn Fields) -> Result<EntityRow, StoreError> {
    let (closed_at, origin) = (row.maybe_int(4)?.map(Timestamp), row.maybe_int(5)?);
    Ok(EntityRow { address: address(row)?, created_at: row.time(3)?, closed_at, origin })
}

pub(super) fn stream_summary(row: &dyn Fields) -> Result<StreamSummary, StoreError> {
    Ok(StreamSummary {
        address: address(row)?,
        created_at: row.time(3)?,
        closed_at: row.maybe_int(4)?.map(Timestamp),
        version: row.int(5)?,
        updated_at: row.time(6)?,
    })
}

pub(crate) fn key_row(row: &dyn Fields) -> Result<KeyRow, StoreError> {
    let hash: Result<[u8; 32], _> = row.bytes(2)?.try_into();
    Ok(KeyRow {
        scope: row.id(0)?,
        key: row.text(1)?.into(),
        request_hash: hash.map_err(|_| StoreError::corrupt("request hash of a wrong length"))?,
        position: row.int(3)?,
        status: row.small(4)?,
        reply: row.maybe_text(5)?.map(|it| Json::stored(&it)),
        expires_at: row.time(6)?,
    })
}

fn message_kind(tag: &str) -> Result<MessageKind, StoreError> {
    match tag {
        "C" => Ok(MessageKind::Command),
        "E" => Ok(MessageKind::Event),
        _ => Err(StoreError::corrupt(format!("unknown message kind `{tag}`"))),
    }
}

fn direction(tag: &str) -> Result<Direction, StoreError> {
    match tag {
        "I" => Ok(Direction::Input),
        "O" => Ok(Direction::Output),
        _ => Err(StoreError::corrupt(format!("unknown direction `{tag}`"))),
    }
}

fn settled_as(tag: &str) -> Result<SettledAs, StoreError> {
    let found = SettledAs::from_tag(tag);
    found.ok_or_else(|| StoreError::corrupt(format!("unknown outcome `{tag}`")))
}

pub(super) fn totals(row: &dyn Fields) -> Result<Totals, StoreError> {
    Ok(Totals { position: row.int(0)?, pending: row.int(1)?, dead: row.int(2)? })
}

pub(super) fn snapshot(row: &dyn Fields) -> Result<Snapshot, StoreError> {
    Ok(Snapshot {
        stream: row.id(0)?,
        version: row.int(1)?,
        code: row.small(2)?,
        state: Json::stored(&row.text(3)?),
    })
}

pub(crate) fn head(row: &dyn Fields) -> Result<Head, StoreError> {
    let base = Base {
        entity: row.id(3)?,
        number: row.int(4)?,
        seq: row.int(5)?,
        position: row.int(6)?,
        chk: row.count(7)?,
        pages: row.count(8)?,
        history_bytes: row.int(9)?,
        parts_seq: row.int(10)?,
        parts: row.int(11)?,
    };
    Ok(Head { seq: row.int(0)?, position: row.int(1)?, chk: row.count(2)?, base })
}

pub(super) fn turn(row: &dyn Fields) -> Result<RecordedTurn, StoreError> {
    Ok(RecordedTurn {
        position: row.int(0)?,
        entity: row.id(1)?,
        seq: row.int(2)?,
        prev: row.int(3)?,
        at: row.time(4)?,
        cause: row.maybe_int(5)?,
        sent: row.count(6)?,
        chk: row.count(7)?,
        input: row.text(8)?.into(),
        delta: row.bytes(9)?.into(),
    })
}

pub(super) fn turn_summary(row: &dyn Fields) -> Result<TurnSummary, StoreError> {
    Ok(TurnSummary {
        position: row.int(0)?,
        entity: row.id(1)?,
        seq: row.int(2)?,
        prev: row.int(3)?,
        at: row.time(4)?,
        cause: row.maybe_int(5)?,
        sent: row.count(6)?,
        input: row.text(8)?.into(),
        bytes: row.int(9)?,
    })
}

pub(super) fn object_summary(row: &dyn Fields) -> Result<ObjectSummary, StoreError> {
    let address = Address::new(EntityKind::Object, &row.text(12)?, &row.text(13)?);
    Ok(ObjectSummary {
        address: address.map_err(|error| StoreError::corrupt(error.to_string()))?,
        created_at: row.time(14)?,
        updated_at: row.maybe_int(15)?.map(Timestamp),
        head: head(row)?,
    })
}

pub(super) fn image(row: &dyn Fields) -> Result<PageImage, StoreError> {
    Ok(PageImage {
        page: row.count(0)?,
        seq: row.int(1)?,
        crc: row.count(2)?,
        data: row.bytes(3)?.into(),
    })
}

pub(super) fn owned_image(row: &dyn Fields) -> Result<(EntityId, PageImage), StoreError> {
    Ok((row.id(4)?, image(row)?))
}

pub(super) fn old_turn(row: &dyn Fields) -> Result<OldTurn, StoreError> {
    let (position, entity, at) = (row.int(0)?, row.id(1)?, row.time(2)?);
    Ok(OldTurn { position, entity, at, is_history: row.int(3)? != 0 })
}

pub(crate) fn turn_brief(row: &dyn Fields) -> Result<(TurnBrief, Option<Head>), StoreError> {
    let brief =
        TurnBrief { entity: row.id(12)?, bytes: row.int(13)?, is_history: row.int(14)? != 0 };
    let head = if row.maybe_int(0)?.is_some() { Some(head(row)?) } else { None };
    Ok((brief, head))
}

pub(super) fn run_summary(row: &dyn Fields) -> Result<RunSummary, StoreError> {
    let run = Address::new(EntityKind::Run, &row.text(0)?, &row.text(1)?);
    let tag = row.text(2)?;
    let status = RunStatus::from_tag(&tag);
    Ok(RunSummary {
        run: run.map_err(|error| StoreError::corrupt(error.to_string()))?,
        status: status.ok_or_else(|| StoreError::corrupt(format!("unknown status `{tag}`")))?,
        created_at: row.time(3)?,
        changed_at: row.time(4)?,
        expires_at: row.maybe_int(5)?.map(Timestamp),
    })
}
