//! A pair of environments: its comparisons, each final once, and as many as are worth keeping.

mod rows;

use std::time::Duration;

use steadfast_core::{
    Connection, Error, Handle, Object, Result, Turn, Workflow, rusqlite::OptionalExtension,
};

use self::rows::{SCHEMA, find};
use crate::{
    AttachExplanation, Brief, CompareEnvironments, CompareError, CompareInput, CreateComparison,
    Earlier, EnvPair, FailComparison, GetComparison, GetComparisonsForHistory, GetSealed,
    ListComparisons, Overdue, PairMessage, PairSeen, Pairs, ReportStep, SaveProbe, SaveResult,
    Shown, Status, pair::organization_and_key, trend::Past,
};

/// How long a comparison may take.
const TIME_MAX: Duration = Duration::from_mins(5);

impl Object for EnvPair {
    const CLASS: &'static str = "env-pair";
    type Calls = (
        CreateComparison,
        SaveProbe,
        ReportStep,
        SaveResult,
        AttachExplanation,
        FailComparison,
        GetComparison,
        GetSealed,
        GetComparisonsForHistory,
        ListComparisons,
        Overdue,
    );
    const MIGRATIONS: &'static [&'static str] = &[SCHEMA];

    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[("ping", r#"{"type":"pong"}"#)];

    /// A watcher of one comparison hears its state, also if it has ended meanwhile.
    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let Some(id) = connection.param("comparison") else { return Ok(()) };
        let Some((status, step)) = rows::standing(turn.sql(), id)? else { return Ok(()) };
        let comparison_id = id.to_owned();
        let message = match status {
            Status::Running => {
                let step = step.unwrap_or_else(|| "starting".into());
                PairMessage::Progress { comparison_id, step }
            }
            Status::Completed | Status::Failed => PairMessage::Finished { comparison_id, status },
        };
        turn.tell(connection.id, &message);
        Ok(())
    }
}

fn alarm(comparison: &str) -> String {
    format!("overdue-{comparison}")
}

impl Handle<CreateComparison> for EnvPair {
    const NAME: &'static str = "create-comparison";
    type Reply = Shown;

    /// The row and the start of its run are one commit.
    fn handle(&self, turn: &Turn<Self>, msg: CreateComparison) -> Result<Shown> {
        let (sql, id) = (turn.sql(), msg.comparison_id);
        let kept = msg.comparison.without_secrets();
        if let Some(found) = find(sql, &id)? {
            let is_same = found.result.as_ref().is_some_and(|it| it.comparison == kept);
            if is_same && rows::direction(sql, &id)? == msg.direction {
                return Ok(found);
            }
            let text = format!("comparison `{id}` has other URLs; use another key");
            return Err(Error::terminal(text).with_code("key_reused"));
        }
        let running = "SELECT count(*) FROM comparisons WHERE status = 'running'";
        let running: u32 = sql.query_row(running, (), |row| row.get(0))?;
        if self.running_max <= running {
            let text =
                format!("{running} comparisons of this pair are in progress; wait for one to end");
            return Err(Error::terminal(text).with_code("too_many_running"));
        }
        sql.execute(
            "INSERT INTO comparisons (id, comparison, direction, status, createdAt, sealed) \
             VALUES (?1, ?2, ?3, 'running', ?4, ?5)",
            (&id, serde_json::to_string(&kept)?, &msg.direction, turn.now().0, &msg.sealed),
        )?;
        let run = run_id(&id, sql.last_insert_rowid());
        turn.set_alarm(&alarm(&id), TIME_MAX, Overdue { comparison_id: id.clone() });
        let input = CompareInput {
            pair: turn.name().into(),
            comparison_id: id.clone(),
            comparison: kept.clone(),
            sealed: msg.sealed,
        };
        turn.start(CompareEnvironments::at(&run), input);
        let (organization, key) = organization_and_key(turn.name());
        let seen = PairSeen {
            pair: key.into(),
            comparison_id: id.clone(),
            comparison: kept,
            at: turn.now().0,
            severity: None,
        };
        turn.send(Pairs::of(organization), seen);
        find(sql, &id)?.ok_or_else(|| unknown(&id))
    }
}

/// The run of a comparison. An id that is used again after it was forgotten has another run.
fn run_id(id: &str, sequence: i64) -> String {
    format!("{id}-{sequence}")
}

fn unknown(id: &str) -> Error {
    Error::terminal(format!("comparison `{id}` does not exist")).with_code("unknown_comparison")
}

impl Handle<SaveProbe> for EnvPair {
    const NAME: &'static str = "save-probe";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: SaveProbe) -> Result<bool> {
        if !rows::is_running(turn.sql(), &msg.comparison_id)? {
            return Ok(false);
        }
        let (id, side) = (&msg.comparison_id, msg.side.as_str());
        turn.sql().execute(
            "INSERT OR IGNORE INTO probes (id, comparisonId, side, envelope, createdAt) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (format!("{id}:{side}"), id, side, serde_json::to_string(&msg.envelope)?, turn.now().0),
        )?;
        Ok(true)
    }
}

impl Handle<ReportStep> for EnvPair {
    const NAME: &'static str = "report-step";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: ReportStep) -> Result<()> {
        let ReportStep { comparison_id, step } = msg;
        let update = "UPDATE comparisons SET step = ?2 WHERE id = ?1 AND status = 'running'";
        if 0 < turn.sql().execute(update, (&comparison_id, &step))? {
            turn.broadcast(&PairMessage::Progress { comparison_id, step });
        }
        Ok(())
    }
}

impl EnvPair {
    /// Ends a comparison, once. `false` if it has ended before.
    fn end(
        &self,
        turn: &Turn<Self>,
        id: &str,
        status: Status,
        (column, value): (&str, String),
    ) -> Result<bool> {
        let update = format!(
            "UPDATE comparisons SET status = ?2, {column} = ?3, step = NULL, completedAt = ?4, \
             ended = (SELECT coalesce(max(ended), 0) + 1 FROM comparisons) \
             WHERE id = ?1 AND status = 'running'"
        );
        let now = turn.now().0;
        if turn.sql().execute(&update, (id, status.name(), value, now))? == 0 {
            return Ok(false);
        }
        turn.cancel_alarm(&alarm(id));
        self.forget(turn)?;
        let comparison_id = id.to_owned();
        turn.broadcast(&PairMessage::Finished { comparison_id, status });
        Ok(true)
    }
}

impl EnvPair {
    /// Forgets those that ended first. Running comparisons are never among them, and never the
    /// one that has just ended. Probes go with their comparison, and so does an explanation that
    /// is still tried.
    fn forget(&self, turn: &Turn<Self>) -> Result<()> {
        let mut delete = turn.sql().prepare(
            "DELETE FROM comparisons WHERE ended <= \
             (SELECT ended FROM comparisons ORDER BY ended DESC LIMIT 1 OFFSET ?1) \
             RETURNING id, sequence, \
              result IS NOT NULL AND json_extract(result, '$.explanation') IS NULL",
        )?;
        let rows =
            delete.query_map([self.keep], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        for row in rows {
            let (id, sequence, is_unexplained): (String, i64, bool) = row?;
            turn.sql().execute("DELETE FROM probes WHERE comparisonId = ?1", [&id])?;
            if is_unexplained {
                turn.terminate(CompareEnvironments::at(run_id(&id, sequence)));
            }
        }
        Ok(())
    }
}

impl Handle<SaveResult> for EnvPair {
    const NAME: &'static str = "save-result";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: SaveResult) -> Result<bool> {
        let id = msg.comparison_id.clone();
        let severity = serde_json::to_value(msg.diff.max_severity)?;
        let stored = rows::StoredResult {
            diff: msg.diff,
            trend: msg.trend,
            explanation: msg.explanation,
            explanation_error: msg.explanation_error,
        };
        let value = serde_json::to_string(&stored)?;
        let is_done = self.end(turn, &id, Status::Completed, ("result", value))?;
        if let Some(shown) = find(turn.sql(), &id)?.filter(|_| is_done)
            && let Some(result) = shown.result
        {
            let (organization, key) = organization_and_key(turn.name());
            let seen = PairSeen {
                pair: key.into(),
                comparison_id: id,
                comparison: result.comparison,
                at: turn.now().0,
                severity: severity.as_str().map(str::to_owned),
            };
            turn.send(Pairs::of(organization), seen);
        }
        Ok(is_done)
    }
}

impl Handle<AttachExplanation> for EnvPair {
    const NAME: &'static str = "attach-explanation";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: AttachExplanation) -> Result<bool> {
        let id = msg.comparison_id;
        let Some(mut stored) = rows::stored_result(turn.sql(), &id)? else { return Ok(false) };
        if stored.explanation.is_some() {
            return Ok(false);
        }
        (stored.explanation, stored.explanation_error) = (msg.explanation, msg.error);
        let update = "UPDATE comparisons SET result = ?2 WHERE id = ?1 AND status = 'completed'";
        turn.sql().execute(update, (&id, serde_json::to_string(&stored)?))?;
        turn.broadcast(&PairMessage::Explained { comparison_id: id });
        Ok(true)
    }
}

impl Handle<FailComparison> for EnvPair {
    const NAME: &'static str = "fail-comparison";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: FailComparison) -> Result<bool> {
        let value = serde_json::to_string(&msg.error)?;
        self.end(turn, &msg.comparison_id, Status::Failed, ("error", value))
    }
}

impl Handle<Overdue> for EnvPair {
    const NAME: &'static str = "overdue";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Overdue) -> Result<()> {
        let message = "the comparison took longer than five minutes".into();
        let error = CompareError { code: "timeout".into(), message };
        let value = serde_json::to_string(&error)?;
        let id = msg.comparison_id;
        let sequence = rows::sequence(turn.sql(), &id)?;
        if self.end(turn, &id, Status::Failed, ("error", value))? {
            turn.terminate(CompareEnvironments::at(run_id(&id, sequence)));
        }
        Ok(())
    }
}

impl Handle<GetComparison> for EnvPair {
    const NAME: &'static str = "get-comparison";
    const PUBLIC: bool = true;
    type Reply = Option<Shown>;

    fn handle(&self, turn: &Turn<Self>, msg: GetComparison) -> Result<Option<Shown>> {
        find(turn.sql(), &msg.comparison_id)
    }
}

impl Handle<GetSealed> for EnvPair {
    const NAME: &'static str = "get-sealed";
    type Reply = Option<String>;

    fn handle(&self, turn: &Turn<Self>, msg: GetSealed) -> Result<Option<String>> {
        rows::sealed(turn.sql(), &msg.comparison_id)
    }
}

impl Handle<GetComparisonsForHistory> for EnvPair {
    const NAME: &'static str = "get-comparisons-for-history";
    type Reply = Vec<Earlier>;

    /// Of the same direction only: what was added there was removed here.
    fn handle(&self, turn: &Turn<Self>, msg: GetComparisonsForHistory) -> Result<Vec<Earlier>> {
        let at = "SELECT direction, sequence FROM comparisons WHERE id = ?1";
        let read = |row: &steadfast_core::rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Option<(String, i64)> =
            turn.sql().query_row(at, [&msg.comparison_id], read).optional()?;
        let Some((direction, sequence)) = found else { return Ok(Vec::new()) };
        let mut select = turn.sql().prepare(
            "SELECT result, completedAt FROM comparisons WHERE status = 'completed' \
             AND direction = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT ?3",
        )?;
        let rows = select.query_map((direction, sequence, msg.limit), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let mut earlier = Vec::new();
        for row in rows {
            let (text, completed_at) = row?;
            let stored: rows::StoredResult = serde_json::from_str(&text)?;
            let summary = stored.explanation.map(|it| it.summary);
            earlier.push(Earlier { past: Past::from(&stored.diff), summary, completed_at });
        }
        Ok(earlier)
    }
}

impl Handle<ListComparisons> for EnvPair {
    const NAME: &'static str = "list-comparisons";
    const PUBLIC: bool = true;
    type Reply = Vec<Brief>;

    fn handle(&self, turn: &Turn<Self>, msg: ListComparisons) -> Result<Vec<Brief>> {
        let mut select = turn.sql().prepare(rows::BRIEF)?;
        let mut rows = select.query((msg.before.unwrap_or(i64::MAX), msg.limit))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(rows::brief(row)?);
        }
        Ok(found)
    }
}
