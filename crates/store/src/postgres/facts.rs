//! Reads the rows that a batch needs: one round trip, however many rows.

use std::collections::HashMap;

use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use super::{
    batch_error::BatchError,
    pipeline::{Params, PendingReply, references, send},
};
use crate::{
    EntityId, Position, StoreError,
    plan::{Brief, DeadBrief, Erasure, Facts, Needs},
    sql::{self, Fields, expiry, queries},
};

const ENTITIES: &str = "SELECT id FROM entity WHERE id = ANY ($1::bytea[])";
const WORKS: &str = "SELECT position, target, ordered, due_at, attempts, forgiven, holder, lease, \
     claimed_at, queued FROM work WHERE position = ANY ($1::bigint[])";
const BRIEFS: &str = "SELECT m.position, m.stream, m.target, m.ordered, \
     NOT EXISTS (SELECT 1 FROM message n WHERE n.origin = m.origin AND n.version > m.version), \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.target AND e.kind = 'queue'), \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.stream AND e.kind IN ('process', 'run')) \
     FROM message m WHERE m.position = ANY ($1::bigint[])";
const OUTCOMES: &str = "SELECT position, state, settled_at, attempts, error, queue FROM outcome \
     WHERE position = ANY ($1::bigint[])";
const KEYS: &str = "SELECT i.scope, i.key, i.request_hash, i.position, i.status, i.reply, \
     i.expires_at FROM unnest($1::bytea[], $2::text[]) AS n (scope, key) \
     JOIN idempotency i ON i.scope = n.scope AND i.key = n.key";

const ENTRIES: &str = "SELECT e.space, e.key, e.revision, e.value, e.reference, e.changed_at, \
     e.expires_at FROM unnest($1::text[], $2::bytea[]) AS n (space, key) \
     JOIN entry e ON e.space = n.space AND e.key = n.key";
const OCCUPIED: &str = "SELECT n.space FROM unnest($1::text[]) AS n (space) \
     WHERE EXISTS (SELECT 1 FROM entry e WHERE e.space = n.space AND e.value IS NOT NULL)";

const WAITING: &str = "SELECT queue, waiting FROM depth WHERE queue = ANY ($1::bytea[])";

/// The prepared statements.
pub(super) struct Reads {
    counter: Statement,
    streams: Statement,
    entities: Statement,
    works: Statement,
    briefs: Statement,
    outcomes: Statement,
    keys: Statement,
    heads: Statement,
    turns: Statement,
    erasures: Statement,
    dead: Statement,
    entries: Statement,
    occupied: Statement,
    waiting: Statement,
}

impl Reads {
    pub(super) async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            counter: client.prepare(queries::COUNTER).await?,
            streams: client.prepare(&many(queries::STREAM_END, "e.id = ?1", "bytea")).await?,
            entities: client.prepare(ENTITIES).await?,
            works: client.prepare(WORKS).await?,
            briefs: client.prepare(BRIEFS).await?,
            outcomes: client.prepare(OUTCOMES).await?,
            keys: client.prepare(KEYS).await?,
            heads: client.prepare(&many(queries::HEAD, "b.entity = ?1", "bytea")).await?,
            turns: client.prepare(&many(queries::TURN_BRIEF, "t.position = ?1", "bigint")).await?,
            erasures: client.prepare(&many(expiry::ERASURE, "e.id = ?1", "bytea")).await?,
            dead: client.prepare(&many(expiry::ERASURE_DEAD, "e.id = ?1", "bytea")).await?,
            entries: client.prepare(ENTRIES).await?,
            occupied: client.prepare(OCCUPIED).await?,
            waiting: client.prepare(WAITING).await?,
        })
    }

    /// Sends the statements for the rows that are needed.
    pub(super) async fn send<'a>(
        &'a self,
        client: &'a Client,
        params: &'a [Option<Params<'a>>; 14],
    ) -> Vec<PendingReply<'a, Result<Vec<Row>, Error>>> {
        let mut replies = Vec::with_capacity(params.len());
        for (statement, params) in self.statements().into_iter().zip(params) {
            let query = async move {
                let Some(params) = params else { return Ok(Vec::new()) };
                client.query(statement, &references(params)).await
            };
            replies.push(send(query).await);
        }
        replies
    }

    /// In the order in which they are sent, which is that of [`params`].
    fn statements(&self) -> [&Statement; 14] {
        [
            &self.counter,
            &self.streams,
            &self.entities,
            &self.works,
            &self.briefs,
            &self.outcomes,
            &self.keys,
            &self.heads,
            &self.turns,
            &self.erasures,
            &self.dead,
            &self.entries,
            &self.occupied,
            &self.waiting,
        ]
    }
}

/// The parameters of the statements; `None` if no row is needed.
pub(super) fn params(needs: &Needs) -> [Option<Params<'_>>; 14] {
    let keys = || array(needs.keys.iter().map(|it| &*it.1));
    let scopes = || array(needs.keys.iter().map(|it| it.0.0.as_slice()));
    let spaces = || array(needs.entries.iter().map(|it| it.space()));
    let entry_keys = || array(needs.entries.iter().map(|it| it.key()));
    let occupied = || array(needs.spaces.iter().map(|it| &**it));
    [
        Some(vec![]),
        ids(&needs.streams),
        ids(&needs.entities),
        positions(&needs.works),
        positions(&needs.messages),
        positions(&needs.messages),
        (!needs.keys.is_empty()).then(|| vec![scopes(), keys()]),
        ids(&needs.heads),
        positions(&needs.turns),
        ids(&needs.erasures),
        ids(&needs.erasures),
        (!needs.entries.is_empty()).then(|| vec![spaces(), entry_keys()]),
        (!needs.spaces.is_empty()).then(|| vec![occupied()]),
        ids(&needs.queues),
    ]
}

fn ids(ids: &[EntityId]) -> Option<Params<'_>> {
    (!ids.is_empty()).then(|| -> Params<'_> { vec![array(ids.iter().map(|it| it.0.as_slice()))] })
}

fn positions(positions: &[Position]) -> Option<Params<'_>> {
    (!positions.is_empty()).then(|| -> Params<'_> { vec![array(positions.iter().copied())] })
}

fn array<'a, T>(values: impl Iterator<Item = T>) -> Box<dyn ToSql + Sync + Send + 'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(values.collect::<Vec<T>>())
}

/// Waits for the rows.
pub(super) async fn receive(
    replies: Vec<PendingReply<'_, Result<Vec<Row>, Error>>>,
) -> Result<Facts, BatchError> {
    let mut answers = Vec::with_capacity(replies.len());
    for reply in replies {
        // The first error in order is the cause of those behind it.
        answers.push(reply.wait().await?);
    }
    understand(&answers).map_err(|error| BatchError::Bug(error.to_string()))
}

fn understand(answers: &[Vec<Row>]) -> Result<Facts, StoreError> {
    let [
        counter,
        streams,
        entities,
        works,
        briefs,
        outcomes,
        keys,
        heads,
        turns,
        erasures,
        dead,
        entries,
        occupied,
        waiting,
    ] = answers
    else {
        return Err(StoreError::corrupt("every question has an answer"));
    };
    let mut facts = Facts::default();
    let counter = counter.first().ok_or_else(|| StoreError::corrupt("the counter is missing"))?;
    (facts.position, facts.at) = (counter.int(0)?, counter.time(1)?);
    facts.swept = counter.int(3)?;
    understand_streams(streams, &mut facts)?;
    for row in entities {
        facts.entities.insert(row.id(0)?);
    }
    for row in works {
        let work = sql::work(row)?;
        facts.works.load(work.position, work);
    }
    for row in briefs {
        let (stream, target) = (row.id(1)?, row.maybe_id(2)?);
        let (ordered, last, queued) = (row.int(3)? != 0, row.int(4)? != 0, row.int(5)? != 0);
        let recorded = row.int(6)? != 0;
        facts.messages.load(row.int(0)?, Brief { stream, target, ordered, queued, last, recorded });
    }
    for row in outcomes {
        let (position, settled) = sql::settled_row(row)?;
        facts.settled.load(position, settled);
    }
    for row in keys {
        let key = sql::key_row(row)?;
        facts.keys.load((key.scope, key.key.clone()), key);
    }
    for row in heads {
        let head = sql::head(row)?;
        facts.heads.load(head.base.entity, head);
    }
    for row in turns {
        let (brief, head) = sql::turn_brief(row)?;
        if let Some(head) = head {
            facts.heads.load(head.base.entity, head);
        }
        facts.turns.load(row.int(15)?, brief);
    }
    understand_erasures(erasures, dead, &mut facts)?;
    for row in entries {
        let entry = sql::entries::entry(row)?;
        facts.entries.load(entry.entry.clone(), entry);
    }
    for row in occupied {
        facts.spaces.insert(row.text(0)?.into());
    }
    for row in waiting {
        facts.waiting.insert(row.id(0)?, row.int(1)?);
    }
    Ok(facts)
}

fn understand_streams(streams: &[Row], facts: &mut Facts) -> Result<(), StoreError> {
    for row in streams {
        let id = row.id(0)?;
        facts.versions.insert(id, row.maybe_int(2)?.unwrap_or(0));
        if let Some(origin) = row.maybe_int(1)? {
            facts.origins.load(id, origin);
        }
        if let Some(last) = row.maybe_int(3)? {
            facts.lasts.load(id, last);
        }
    }
    Ok(())
}

fn understand_erasures(
    erasures: &[Row],
    dead: &[Row],
    facts: &mut Facts,
) -> Result<(), StoreError> {
    let mut dead_of: HashMap<EntityId, Vec<DeadBrief>> = HashMap::new();
    for row in dead {
        let (id, brief) = expiry::dead_brief(row)?;
        dead_of.entry(id).or_default().push(brief);
    }
    for row in erasures {
        let (id, found) = expiry::erasure(row)?;
        let dead = dead_of.remove(&id).unwrap_or_default();
        facts.erasures.load(id, Erasure { dead, ..found });
    }
    Ok(())
}

/// A statement for one key, for many.
fn many(statement: &str, key: &str, kind: &str) -> String {
    statement.replace(key, &key.replace("= ?1", &format!("= ANY ($1::{kind}[])")))
}
