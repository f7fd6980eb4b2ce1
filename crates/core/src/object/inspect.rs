//! Inspection of objects: lists, contents and history. Everything is read from the store, so only
//! durable state is visible, and the class need not be served here.

pub(super) mod changes;
pub(super) mod contents;
pub(super) mod reader;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_store::{
    self as store, EntityKind, Head, ObjectSummary, Position, Store, StoreError, TurnSummary,
};

use self::{
    changes::Changes,
    contents::{ObjectItem, ObjectView, Rows, SqlQuery},
    reader::InspectError,
};
use super::{
    CallError, Objects,
    history::{HistoryError, Past, pages_at},
    objects::{INSPECTED_MAX, InspectionLimits},
};
use crate::{on_drop::on_drop, places::Place};

/// Objects of a class that are counted.
const COUNT_MAX: usize = 1_000;

/// Time after the deadline of a statement; then it is abandoned.
const GRACE: Duration = Duration::from_millis(500);

/// A class in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ObjectClass))]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Whether this program serves it; the others are stored here by other programs.
    pub served: bool,
    /// The number of its objects, up to 1,000.
    pub objects: usize,
    /// Whether there are more than that.
    pub more: bool,
}

/// A part of the list of classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassList {
    /// The classes; fewer than the limit if all objects of some were deleted.
    pub classes: Vec<ClassView>,
    /// The class after which the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl Objects {
    /// The classes that are served here, and those of existing objects, in the order of addresses,
    /// after one of them.
    #[steadfast_store::boxed]
    pub async fn look_at_classes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ClassList, InspectError> {
        // In the order of addresses, in which a slash follows.
        let key = |class: &str| format!("{class}/");
        let mut names = self.store().classes(EntityKind::Object, after, limit + 1).await?;
        let served = self.classes().filter(|it| after.is_none_or(|at| key(at) < key(it)));
        names.extend(served.map(Into::into));
        names.sort_unstable_by_key(|it| key(it));
        names.dedup();
        let is_more = limit < names.len();
        names.truncate(limit);
        let next = names.last().filter(|_| is_more).cloned();
        let mut classes = Vec::new();
        for name in names {
            let found = self.store().count_objects(&name, COUNT_MAX + 1).await?;
            let served = self.serves(&name);
            if served || 0 < found {
                let (objects, more) = (found.min(COUNT_MAX), COUNT_MAX < found);
                classes.push(ClassView { name, served, objects, more });
            }
        }
        Ok(ClassList { classes, next })
    }

    /// The objects of a class whose names begin with `prefix`, by name, after a name.
    #[steadfast_store::boxed]
    pub async fn look_at_class(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ObjectItem>, InspectError> {
        store::Address::new(EntityKind::Object, class, "x")?;
        let found = self.store().objects(class, prefix, after, limit).await?;
        if found.is_empty() {
            self.check_class(class).await?;
        }
        Ok(found.into_iter().map(|it| self.item(it)).collect())
    }

    /// The last turns of an object, newest first, or those from a position on. Turns of other
    /// objects are not returned.
    #[steadfast_store::boxed]
    pub async fn look_at_turns(
        &self,
        class: &str,
        name: &str,
        from: Option<Position>,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, InspectError> {
        let (object, head) = self.find(class, name).await?;
        let from = from.unwrap_or(head.position);
        let mut turns = self.store().turn_summaries(from, limit).await?;
        turns.retain(|it| it.entity == object.id() && head.base.number <= it.position);
        Ok(turns)
    }

    /// An object after a turn; without a turn, its current state. A caller has at most half of the
    /// places for it.
    #[steadfast_store::boxed]
    pub async fn look_back(
        &self,
        caller: Option<&str>,
        class: &str,
        name: &str,
        turn: Option<i64>,
    ) -> Result<Past, InspectError> {
        let (object, _) = self.find(class, name).await?;
        let InspectionLimits { exports, reads, .. } = &self.program.inspection;
        let both = async { (exports.take(caller).await, reads.take(caller).await) };
        let (export, read) = in_time(both).await?;
        let permit = Arc::new(read);
        Ok(self.past(&object, turn, &permit).await?.held(export))
    }

    /// Runs one read-only statement on the current or a past state of an object. It is stopped
    /// after two seconds, and when the future is dropped. A caller has at most half of the places
    /// for statements.
    #[steadfast_store::boxed]
    pub async fn query(
        &self,
        caller: Option<&str>,
        class: &str,
        name: &str,
        query: SqlQuery,
    ) -> Result<Rows, InspectError> {
        let (object, _) = self.find(class, name).await?;
        let place = in_time(self.program.inspection.queries.take(caller)).await?;
        self.ask(object, query, Arc::new(place)).await
    }

    /// Reads rows of one table or view, after the first `offset`. A caller has at most half of the
    /// places for what pages show.
    #[steadfast_store::boxed]
    pub async fn look_at_rows(
        &self,
        caller: Option<&str>,
        class: &str,
        name: &str,
        table: &str,
        offset: usize,
        limit: usize,
    ) -> Result<Rows, InspectError> {
        let (object, _) = self.find(class, name).await?;
        let permit = self.permit(caller).await?;
        let sql = format!("SELECT * FROM \"{}\" LIMIT ? OFFSET ?", table.replace('"', "\"\""));
        let query = SqlQuery { sql, params: json!([limit, offset]), turn: None };
        self.ask(object, query, permit).await
    }

    /// The changes of one turn: the rows before and after it. A caller has at most half of the
    /// places for what pages show.
    #[steadfast_store::boxed]
    pub async fn look_at_turn(
        &self,
        caller: Option<&str>,
        class: &str,
        name: &str,
        turn: i64,
    ) -> Result<Changes, InspectError> {
        let (object, head) = self.find(class, name).await?;
        let permit = self.permit(caller).await?;
        let after = self.past(&object, Some(turn), &permit).await?;
        let before = match turn {
            1 => None,
            _ => Some(self.past(&object, Some(turn - 1), &permit).await?),
        };
        let summary = self.find_turn(&object, &head, turn).await?;
        apart(move || {
            let _permit = permit;
            changes::compare(summary, before, after)
        })
        .await
    }

    /// Describes an object. A caller has at most half of the places for what pages show.
    #[steadfast_store::boxed]
    pub async fn look_at(
        &self,
        caller: Option<&str>,
        class: &str,
        name: &str,
    ) -> Result<ObjectView, InspectError> {
        let (object, _) = self.find(class, name).await?;
        // With its own name as prefix it is the first.
        let found = self.store().objects(class, name, None, 1).await?.pop();
        let Some(summary) = found.filter(|it| it.address == object) else {
            return Err(InspectError::UnknownObject { object: object.to_string() });
        };
        let mut view = ObjectView {
            oldest_turn: contents::oldest(self.store(), &summary.head).await?,
            entry: self.item(summary),
            class: class.into(),
            served: self.serves(class),
            bytes: 0,
            tables: Vec::new(),
            alarms: Vec::new(),
            connections: Vec::new(),
            last_error: self.scheduler.failures.of(object.id()),
            damage: None,
        };
        let permit = self.permit(caller).await?;
        let first = self.scheduler.connections.first();
        match self.past(&object, None, &permit).await {
            Ok(past) => {
                let look = move || {
                    let _permit = permit;
                    view.damage = contents::fill(&mut view, past, first).err();
                    Ok(view)
                };
                apart::<_, InspectError>(look).await
            }
            Err(HistoryError::Call(CallError::Corrupt { detail, .. })) => {
                Ok(ObjectView { damage: Some(detail), ..view })
            }
            // It was deleted meanwhile.
            Err(HistoryError::NoTurn { .. }) => {
                Err(InspectError::UnknownObject { object: object.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Objects {
    /// Runs a statement. The permit is released when the statement has ended, even if the caller is
    /// gone.
    async fn ask(
        &self,
        object: store::Address,
        query: SqlQuery,
        place: Permit,
    ) -> Result<Rows, InspectError> {
        let past = self.past(&object, query.turn, &place).await?;
        let now = self.scheduler.clock.now();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        // Nobody waits for the statement when this future is dropped.
        let _stopped = on_drop(|| stop.store(true, Ordering::Relaxed));
        let asked = apart(move || {
            let _place = place;
            contents::run(past, &query, now, stopped)
        });
        // A statement checks the clock between two instructions of SQLite. If one instruction takes
        // long, for example a sort, the caller does not wait for it.
        let answer = tokio::time::timeout(reader::TIME + GRACE, asked).await;
        answer.unwrap_or(Err(InspectError::TooLong { seconds: reader::TIME.as_secs() }))
    }

    /// A past state of an object, assembled on a blocking thread: a large one takes long.
    async fn past(
        &self,
        object: &store::Address,
        turn: Option<i64>,
        place: &Permit,
    ) -> Result<Past, HistoryError> {
        let (store, object) = (self.scheduler.store.clone(), object.clone());
        let (tokio, place) = (self.scheduler.tokio.clone(), place.clone());
        apart(move || {
            let _place = place;
            tokio.block_on(pages_at(&*store, &object, turn))
        })
        .await
    }
}

/// Places, if they are free soon. A caller that would wait long gets an error instead.
async fn in_time<T>(places: impl Future<Output = T>) -> Result<T, InspectError> {
    let taken = tokio::time::timeout(reader::TIME, places).await;
    taken.map_err(|_| InspectError::Busy { places: INSPECTED_MAX })
}

/// A place, held by everything that works on one query.
type Permit = Arc<Place>;

/// Runs something that takes long on a blocking thread.
async fn apart<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    f: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let done = tokio::task::spawn_blocking(f).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable { reason: error.to_string() }.into()))
}

/// Turns read at once while one is searched.
const WALK: usize = 1_000;

impl Objects {
    /// Whether this program serves a class.
    pub fn serves(&self, class: &str) -> bool {
        self.program.classes.contains_key(class)
    }

    fn item(
        &self,
        ObjectSummary { address, created_at, updated_at, head }: ObjectSummary,
    ) -> ObjectItem {
        ObjectItem {
            id: address.id().to_string(),
            name: address.name().into(),
            turns: head.seq,
            awake: self.scheduler.table.contains(address.id()),
            address,
            updated_at,
            created_at,
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.scheduler.store
    }

    pub(super) async fn permit(&self, caller: Option<&str>) -> Result<Permit, InspectError> {
        Ok(Arc::new(in_time(self.program.inspection.reads.take(caller)).await?))
    }

    async fn check_class(&self, class: &str) -> Result<(), InspectError> {
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

    async fn find_turn(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{App, Handle, Object, Result, Turn};

    struct Pad;

    #[derive(Serialize, Deserialize)]
    struct Note;

    impl Object for Pad {
        const CLASS: &'static str = "pad";
        type Calls = (Note,);
    }

    impl Handle<Note> for Pad {
        const NAME: &'static str = "note";
        type Reply = ();
        fn handle(&self, turn: &Turn<Self>, _: Note) -> Result<()> {
            turn.kv().put("noted", &1)
        }
    }

    #[tokio::test]
    async fn reads_of_one_caller_delay_no_other_and_no_export_waits_long() {
        let app = App::new("host").object(Pad).test().await.unwrap();
        app.call(Pad::at("a"), Note).await.unwrap();
        let objects = app.objects();
        let reads = &objects.program.inspection.reads;
        let take =
            async |caller: &str| [reads.take(Some(caller)).await, reads.take(Some(caller)).await];
        let export = async |caller: &str| objects.look_back(Some(caller), "pad", "a", None).await;
        let _one = take("one").await;
        assert!(export("other").await.is_ok());
        assert!(objects.look_at(Some("other"), "pad", "a").await.is_ok());
        let _other = take("other").await;
        let (shown, exported) =
            tokio::join!(objects.look_at(Some("one"), "pad", "a"), export("third"));
        assert!(matches!(shown, Err(InspectError::Busy { .. })));
        assert!(matches!(exported, Err(InspectError::Busy { .. })));
    }
}
