//! The agent of an organization: one row for each image, and what may become of it.
//!
//! A row goes from queued to running to classified or failed, and only its own run moves it. What
//! is newer is decided by the bucket's number alone, so events may come twice, late, or in any
//! order.

use steadfast_core::{
    Connection, Error, Handle, Object, Outcome, Result, Turn, Workflow, rusqlite::OptionalExtension,
};

use crate::{
    Classification, FindLostRuns, GetUpload, GetUploads, HideUpload, IngestUploadEvent,
    MarkRunning, OnDelete, OrganizationAgent, OrganizationMessage, OrganizationWorkflow,
    PersistClassificationFailure, PersistClassificationSuccess, ProgressStep, ReportError,
    ReportProgress, RetryUpload, Status, SweepStuck, SweepTombstones, Upload, alarms, event_id,
    upload::{self, SCHEMA},
    workflow_id,
};

impl Object for OrganizationAgent {
    const CLASS: &'static str = "organization";
    type Calls = (
        IngestUploadEvent,
        OnDelete,
        HideUpload,
        MarkRunning,
        PersistClassificationSuccess,
        PersistClassificationFailure,
        ReportProgress,
        RetryUpload,
        GetUpload,
        GetUploads,
        ReportError,
        SweepTombstones,
        SweepStuck,
        Outcome<FindLostRuns>,
    );
    const MIGRATIONS: &'static [&'static str] = &[SCHEMA];

    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[("ping", r#"{"type":"pong"}"#)];

    fn connected(&self, turn: &Turn<Self>, _: &Connection) -> Result<()> {
        alarms::arm(self, turn)
    }
}

impl Handle<IngestUploadEvent> for OrganizationAgent {
    const NAME: &'static str = "ingest-upload-event";
    type Reply = Option<Upload>;

    /// The row and the start of its run are one commit, with the end of the delivery that brought
    /// the event. What is known already, or older than what is known, changes nothing.
    fn handle(&self, turn: &Turn<Self>, msg: IngestUploadEvent) -> Result<Option<Upload>> {
        let sql = turn.sql();
        if msg.sequence <= self.last_sequence(turn, &msg.name)? {
            // The event may have arrived before the request that knows the type.
            sql.execute(
                "UPDATE Upload SET contentType = coalesce(contentType, ?2) \
                 WHERE name = ?1 AND sequence = ?3",
                (&msg.name, &msg.content_type, msg.sequence),
            )?;
            alarms::arm(self, turn)?;
            return upload::find(sql, &msg.name);
        }
        stop_run(turn, &msg.name)?;
        let event_id = event_id(&format!("{}/{}", turn.name(), msg.name), &msg.version);
        let (workflow_id, now) = (workflow_id(&event_id, 0), turn.now().0);
        sql.execute("DELETE FROM Tombstone WHERE name = ?1", [&msg.name])?;
        upload::forget_lost_runs(sql, &msg.name)?;
        sql.execute(
            "INSERT INTO Upload (name, eventId, workflowId, status, sequence, version, size, \
             contentType, createdAt, updatedAt) \
             VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6, ?7, ?8, ?8) \
             ON CONFLICT (name) DO UPDATE SET eventId = ?2, workflowId = ?3, status = 'queued', \
             sequence = ?4, version = ?5, size = ?6, contentType = ?7, updatedAt = ?8, \
             classificationLabel = NULL, classificationScore = NULL, topFive = NULL, error = NULL, \
             retries = 0, completedAt = NULL",
            (
                &msg.name,
                &event_id,
                &workflow_id,
                msg.sequence,
                &msg.version,
                msg.size,
                &msg.content_type,
                now,
            ),
        )?;
        let received = OrganizationMessage::UploadReceived {
            name: msg.name.clone(),
            event_id: event_id.clone(),
        };
        turn.broadcast(&received);
        match msg.failed {
            Some(error) => fail(turn, &event_id, &workflow_id, &error).map(drop)?,
            None => self.start_run(turn, &msg.name, &msg.version, &event_id, &workflow_id),
        }
        alarms::arm(self, turn)?;
        upload::find(sql, &msg.name)
    }
}

impl Handle<OnDelete> for OrganizationAgent {
    const NAME: &'static str = "on-delete";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: OnDelete) -> Result<()> {
        self.delete(turn, msg.name, msg.sequence)
    }
}

impl Handle<HideUpload> for OrganizationAgent {
    const NAME: &'static str = "hide-upload";
    type Reply = ();

    /// The bucket has deleted the blob, so this is the deletion. Its event finds nothing to do.
    fn handle(&self, turn: &Turn<Self>, msg: HideUpload) -> Result<()> {
        self.delete(turn, msg.name, msg.sequence)
    }
}

impl OrganizationAgent {
    /// Removes the row and ends its run. The tombstone keeps an older event that comes later from
    /// bringing the row back.
    fn delete(&self, turn: &Turn<Self>, name: String, sequence: i64) -> Result<()> {
        let sql = turn.sql();
        if sequence <= self.last_sequence(turn, &name)? {
            return alarms::arm(self, turn);
        }
        stop_run(turn, &name)?;
        let deleted = sql.execute("DELETE FROM Upload WHERE name = ?1", [&name])?;
        upload::forget_lost_runs(sql, &name)?;
        sql.execute(
            "INSERT OR REPLACE INTO Tombstone (name, sequence, deletedAt) VALUES (?1, ?2, ?3)",
            (&name, sequence, turn.now().0),
        )?;
        alarms::arm(self, turn)?;
        if 0 < deleted {
            turn.broadcast(&OrganizationMessage::UploadDeleted { name, sequence });
        }
        Ok(())
    }

    fn start_run(
        &self,
        turn: &Turn<Self>,
        name: &str,
        version: &str,
        event_id: &str,
        workflow_id: &str,
    ) {
        let input = Classification {
            organization: turn.name().into(),
            name: name.into(),
            version: version.into(),
            event_id: event_id.into(),
            workflow_id: workflow_id.into(),
        };
        turn.start(OrganizationWorkflow::at(workflow_id), input);
    }

    /// Queues a row again, with a new run: its user wants it, or the one before was lost.
    pub(crate) fn begin_again(&self, turn: &Turn<Self>, row: &Upload) -> Result<()> {
        stop_run(turn, &row.name)?;
        let (lost, _) = upload::lost_runs(turn.sql(), &row.name)?;
        let workflow_id = workflow_id(&row.event_id, row.retries + lost);
        turn.sql().execute(
            "UPDATE Upload SET status = 'queued', error = NULL, completedAt = NULL, retries = ?2, \
             workflowId = ?3, updatedAt = ?4 WHERE name = ?1",
            (&row.name, row.retries, &workflow_id, turn.now().0),
        )?;
        self.start_run(turn, &row.name, &row.version, &row.event_id, &workflow_id);
        Ok(())
    }

    /// The number of the last known change of a name, deletions included. A tombstone counts only
    /// for its time, swept or not.
    fn last_sequence(&self, turn: &Turn<Self>, name: &str) -> Result<i64> {
        upload::last_sequence(turn.sql(), name, self.tombstones_expire(turn))
    }
}

impl Handle<MarkRunning> for OrganizationAgent {
    const NAME: &'static str = "mark-running";
    type Reply = bool;

    /// Only what is queued begins to run; a run that was begun twice finds itself running.
    fn handle(&self, turn: &Turn<Self>, msg: MarkRunning) -> Result<bool> {
        alarms::arm(self, turn)?;
        let begun = turn.sql().execute(
            "UPDATE Upload SET status = 'running', updatedAt = ?3 \
             WHERE eventId = ?1 AND workflowId = ?2 AND status = 'queued'",
            (&msg.event_id, &msg.workflow_id, turn.now().0),
        )?;
        if begun == 0 {
            let running = "SELECT count(*) FROM Upload WHERE eventId = ?1 AND workflowId = ?2 \
                           AND status = 'running'";
            let ids = (&msg.event_id, &msg.workflow_id);
            let running: i64 = turn.sql().query_row(running, ids, |row| row.get(0))?;
            return Ok(0 < running);
        }
        let MarkRunning { event_id, workflow_id } = msg;
        let name = name_of(turn, &event_id)?;
        let told = (&*name, &*workflow_id, Status::Running);
        progress(turn, told, ProgressStep::LoadImage, "The image is loaded.".into());
        turn.broadcast(&OrganizationMessage::ClassificationWorkflowStarted {
            name,
            event_id,
            workflow_id,
        });
        Ok(true)
    }
}

impl Handle<PersistClassificationSuccess> for OrganizationAgent {
    const NAME: &'static str = "persist-classification-success";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: PersistClassificationSuccess) -> Result<bool> {
        alarms::arm(self, turn)?;
        let Some(best) = msg.top_five.first() else {
            return fail(turn, &msg.event_id, &msg.workflow_id, "the classifier gave no label");
        };
        let changed = turn.sql().execute(
            "UPDATE Upload SET status = 'classified', classificationLabel = ?3, \
             classificationScore = ?4, topFive = ?5, error = NULL, updatedAt = ?6, \
             completedAt = ?6, contentType = coalesce(?7, contentType) \
             WHERE eventId = ?1 AND workflowId = ?2 \
             AND status IN ('queued', 'running')",
            (
                &msg.event_id,
                &msg.workflow_id,
                &best.label,
                best.score,
                serde_json::to_string(&msg.top_five)?,
                turn.now().0,
                &msg.content_type,
            ),
        )?;
        if changed == 0 {
            return Ok(false);
        }
        let name = name_of(turn, &msg.event_id)?;
        let told = (&*name, &*msg.workflow_id, Status::Classified);
        progress(turn, told, ProgressStep::PersistResult, format!("It shows {}.", best.label));
        let (label, score) = (best.label.clone(), best.score);
        let event_id = msg.event_id;
        let told = OrganizationMessage::ClassificationUpdated { name, event_id, label, score };
        turn.broadcast(&told);
        Ok(true)
    }
}

impl Handle<PersistClassificationFailure> for OrganizationAgent {
    const NAME: &'static str = "persist-classification-failure";
    type Reply = bool;

    fn handle(&self, turn: &Turn<Self>, msg: PersistClassificationFailure) -> Result<bool> {
        alarms::arm(self, turn)?;
        fail(turn, &msg.event_id, &msg.workflow_id, &msg.error)
    }
}

impl Handle<ReportProgress> for OrganizationAgent {
    const NAME: &'static str = "report-progress";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: ReportProgress) -> Result<()> {
        alarms::arm(self, turn)?;
        let ReportProgress { event_id, workflow_id, message } = msg;
        let running = "SELECT name FROM Upload WHERE eventId = ?1 AND workflowId = ?2 \
                       AND status = 'running'";
        let name = turn.sql().query_row(running, (event_id, &workflow_id), |row| row.get(0));
        let name: Option<String> = name.optional()?;
        if let Some(name) = name {
            let told = (&*name, &*workflow_id, Status::Running);
            progress(turn, told, ProgressStep::ClassifyImage, message);
        }
        Ok(())
    }
}

impl Handle<RetryUpload> for OrganizationAgent {
    const NAME: &'static str = "retry-upload";
    type Reply = Upload;

    /// Begins a new run of its own name, even if one is in progress: its user says that it does
    /// not advance. A label is final.
    fn handle(&self, turn: &Turn<Self>, msg: RetryUpload) -> Result<Upload> {
        let sql = turn.sql();
        let found = upload::find(sql, &msg.name)?.ok_or_else(|| upload::unknown(&msg.name))?;
        if found.status == Status::Classified {
            let text = format!("upload `{}` is classified; there is nothing to retry", msg.name);
            return Err(Error::terminal(text).with_code("wrong_status"));
        }
        sql.execute("UPDATE LostRun SET lostSinceRetry = 0 WHERE name = ?1", [&msg.name])?;
        self.begin_again(turn, &Upload { retries: found.retries + 1, ..found })?;
        alarms::arm(self, turn)?;
        upload::find(sql, &msg.name)?.ok_or_else(|| upload::unknown(&msg.name))
    }
}

impl Handle<GetUpload> for OrganizationAgent {
    const NAME: &'static str = "get-upload";
    const PUBLIC: bool = true;
    type Reply = Option<Upload>;

    fn handle(&self, turn: &Turn<Self>, msg: GetUpload) -> Result<Option<Upload>> {
        alarms::arm(self, turn)?;
        upload::find(turn.sql(), &msg.name)
    }
}

impl Handle<GetUploads> for OrganizationAgent {
    const NAME: &'static str = "get-uploads";
    const PUBLIC: bool = true;
    type Reply = Vec<Upload>;

    fn handle(&self, turn: &Turn<Self>, msg: GetUploads) -> Result<Vec<Upload>> {
        alarms::arm(self, turn)?;
        let (at, name) = msg.after.unwrap_or((i64::MAX, String::new()));
        let status = msg.status.map(Status::name);
        let mut select = turn.sql().prepare(
            "SELECT * FROM Upload WHERE (createdAt, name) < (?1, ?2) \
             AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR classificationLabel = ?4) \
             ORDER BY createdAt DESC, name DESC LIMIT ?5",
        )?;
        let rows = select.query_map((at, name, status, msg.label, msg.limit), upload::read)?;
        Ok(rows.collect::<steadfast_core::rusqlite::Result<_>>()?)
    }
}

impl Handle<ReportError> for OrganizationAgent {
    const NAME: &'static str = "report-error";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: ReportError) -> Result<()> {
        alarms::arm(self, turn)?;
        let ReportError { name, error } = msg;
        turn.broadcast(&OrganizationMessage::UploadError { name, error });
        Ok(())
    }
}

/// Ends the run of what is replaced or deleted. If that fails it does no harm: its result is for an
/// event that is not there any more.
fn stop_run(turn: &Turn<OrganizationAgent>, name: &str) -> Result<()> {
    let going = "SELECT workflowId FROM Upload WHERE name = ?1 AND status IN ('queued', 'running')";
    let run: Option<String> = turn.sql().query_row(going, [name], |row| row.get(0)).optional()?;
    if let Some(run) = run {
        turn.terminate(OrganizationWorkflow::at(run));
    }
    Ok(())
}

pub(crate) fn fail(
    turn: &Turn<OrganizationAgent>,
    event_id: &str,
    workflow_id: &str,
    error: &str,
) -> Result<bool> {
    let changed = turn.sql().execute(
        "UPDATE Upload SET status = 'failed', error = ?3, updatedAt = ?4, completedAt = ?4 \
         WHERE eventId = ?1 AND workflowId = ?2 AND status IN ('queued', 'running')",
        (event_id, workflow_id, error, turn.now().0),
    )?;
    if changed == 0 {
        return Ok(false);
    }
    let name = name_of(turn, event_id)?;
    let told = (&*name, workflow_id, Status::Failed);
    progress(turn, told, ProgressStep::PersistResult, error.to_owned());
    let (event_id, error) = (event_id.to_owned(), error.to_owned());
    turn.broadcast(&OrganizationMessage::ClassificationError { name, event_id, error });
    Ok(true)
}

/// Tells how far a run is: the image, the run and the status of the row.
fn progress(
    turn: &Turn<OrganizationAgent>,
    (name, workflow_id, status): (&str, &str, Status),
    step: ProgressStep,
    message: String,
) {
    let (name, workflow_id) = (name.to_owned(), workflow_id.to_owned());
    turn.broadcast(&OrganizationMessage::WorkflowProgress {
        name,
        workflow_id,
        status,
        step,
        message,
    });
}

fn name_of(turn: &Turn<OrganizationAgent>, event_id: &str) -> Result<String> {
    let select = "SELECT name FROM Upload WHERE eventId = ?1";
    Ok(turn.sql().query_row(select, [event_id], |row| row.get(0))?)
}
