//! The tables of a generation, and what is read from them.

use steadfast_core::{
    Result, Turn,
    rusqlite::{OptionalExtension, Row},
    store::Timestamp,
};

use super::GenerationManager;
use crate::{
    Artifact, Counts, Fetched, Generation, GenerationStatus, Made, Request, TaskError, TaskState,
    TaskView, artifact_id, providers::Delivery, task_id,
};

pub(super) const SCHEMA: &str = "\
    CREATE TABLE request (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        request TEXT NOT NULL,
        workspace TEXT NOT NULL,
        webhooks TEXT,
        timeoutMs INTEGER NOT NULL,
        isDeleted INTEGER NOT NULL DEFAULT 0,
        createdAt INTEGER NOT NULL,
        completedAt INTEGER,
        -- Changes sent to the library: the last one, the one with the end, the last confirmed one.
        told INTEGER NOT NULL DEFAULT 0,
        completedTold INTEGER,
        heard INTEGER NOT NULL DEFAULT 0,
        libraryError TEXT
    ) STRICT;
    CREATE TABLE task (
        idx INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        round INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL,
        progress INTEGER,
        error TEXT,
        made TEXT,
        -- The task of an earlier round, if the output is of that one.
        madeBy TEXT,
        fetched TEXT,
        isUnsent INTEGER NOT NULL DEFAULT 0,
        -- How the provider delivers it, and whether the provider may have it although no time runs.
        delivery TEXT,
        mayBeKnown INTEGER NOT NULL DEFAULT 0,
        -- How often the provider refused it because of too many requests.
        turnedAway INTEGER NOT NULL DEFAULT 0,
        submittedAt INTEGER,
        acknowledgedAt INTEGER,
        -- Consecutive polls since the acknowledgement that did not find it.
        missing INTEGER NOT NULL DEFAULT 0,
        readyAt INTEGER,
        -- The change that first had its artifact.
        readyTold INTEGER
    ) STRICT;
    CREATE TABLE mirror (id TEXT PRIMARY KEY, tags TEXT, turn INTEGER NOT NULL) STRICT;
    CREATE TABLE webhook (
        task TEXT NOT NULL,
        body TEXT NOT NULL,
        receivedAt INTEGER NOT NULL,
        PRIMARY KEY (task, body)
    ) STRICT";

/// The request of a generation.
pub(super) struct Kept {
    pub(super) request: Request,
    pub(super) workspace: String,
    pub(super) webhooks: Option<String>,
    pub(super) timeout_ms: u64,
    pub(super) is_deleted: bool,
    pub(super) created_at: i64,
    pub(super) completed_at: Option<i64>,
    pub(super) completed_told: Option<i64>,
    /// The version of the last change that was sent to the library.
    pub(super) told: i64,
    pub(super) heard: i64,
    pub(super) library_error: Option<TaskError>,
}

impl Kept {
    /// Whether it is over, and the library has confirmed it. Subscribers are notified after that,
    /// and find the generation in the library.
    pub(super) fn is_over(&self) -> bool {
        self.completed_at.is_some() && self.completed_told.is_none_or(|it| it <= self.heard)
    }
}

/// One task, with all that is known of it.
pub(super) struct TaskRow {
    pub(super) index: u32,
    pub(super) id: String,
    pub(super) round: u32,
    pub(super) state: TaskState,
    pub(super) progress: Option<u8>,
    pub(super) error: Option<TaskError>,
    pub(super) made: Option<Made>,
    pub(super) made_by: Option<String>,
    pub(super) is_unsent: bool,
    pub(super) fetched: Option<Fetched>,
    /// When the provider was asked. Time before that is time in our own line.
    pub(super) submitted_at: Option<i64>,
    pub(super) ready_at: Option<i64>,
    pub(super) turned_away: u32,
    /// How the provider delivers it; `None` until it is asked.
    pub(super) delivery: Option<Delivery>,
    /// Whether the provider may have it, although it is not asked now and no time runs.
    pub(super) may_be_known: bool,
    /// When the provider said that it has the task.
    pub(super) acknowledged_at: Option<i64>,
    /// How many polls in a row did not find it.
    pub(super) missing: u32,
    /// The number of the word that its artifact was first told with.
    pub(super) ready_told: Option<i64>,
}

pub(super) fn request(turn: &Turn<GenerationManager>) -> Result<Option<Kept>> {
    let read = |row: &Row<'_>| {
        Ok(Kept {
            request: json(row, "request").ok_or(steadfast_core::rusqlite::Error::InvalidQuery)?,
            workspace: row.get("workspace")?,
            webhooks: row.get("webhooks")?,
            timeout_ms: row.get("timeoutMs")?,
            is_deleted: row.get("isDeleted")?,
            created_at: row.get("createdAt")?,
            completed_at: row.get("completedAt")?,
            completed_told: row.get("completedTold")?,
            told: row.get("told")?,
            heard: row.get("heard")?,
            library_error: json(row, "libraryError"),
        })
    };
    Ok(turn.sql().query_row("SELECT * FROM request", (), read).optional()?)
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, name: &str) -> Option<T> {
    let text: Option<String> = row.get(name).ok()?;
    serde_json::from_str(&text?).ok()
}

fn read_task(row: &Row<'_>) -> steadfast_core::rusqlite::Result<TaskRow> {
    let state: String = row.get("state")?;
    Ok(TaskRow {
        index: row.get("idx")?,
        id: row.get("id")?,
        round: row.get("round")?,
        // Only such are written.
        state: TaskState::from_name(&state).unwrap_or(TaskState::Failed),
        progress: row.get("progress")?,
        error: json(row, "error"),
        made: json(row, "made"),
        made_by: row.get("madeBy")?,
        is_unsent: row.get("isUnsent")?,
        fetched: json(row, "fetched"),
        submitted_at: row.get("submittedAt")?,
        ready_at: row.get("readyAt")?,
        turned_away: row.get("turnedAway")?,
        delivery: json(row, "delivery"),
        may_be_known: row.get("mayBeKnown")?,
        acknowledged_at: row.get("acknowledgedAt")?,
        missing: row.get("missing")?,
        ready_told: row.get("readyTold")?,
    })
}

pub(super) fn tasks(turn: &Turn<GenerationManager>) -> Result<Vec<TaskRow>> {
    let mut select = turn.sql().prepare("SELECT * FROM task ORDER BY idx")?;
    let rows = select.query_map((), read_task)?;
    Ok(rows.collect::<steadfast_core::rusqlite::Result<_>>()?)
}

pub(super) fn task_at(turn: &Turn<GenerationManager>, index: u32) -> Result<Option<TaskRow>> {
    let select = "SELECT * FROM task WHERE idx = ?1";
    Ok(turn.sql().query_row(select, [index], read_task).optional()?)
}

pub(super) fn task_of(turn: &Turn<GenerationManager>, id: &str) -> Result<Option<TaskRow>> {
    let select = "SELECT * FROM task WHERE id = ?1";
    Ok(turn.sql().query_row(select, [id], read_task).optional()?)
}

/// The place that a task of an earlier round was for. Its id is not kept, but can be made again.
pub(super) fn place_of_earlier(
    turn: &Turn<GenerationManager>,
    id: &str,
) -> Result<Option<TaskRow>> {
    let is_its =
        |it: &TaskRow| (0..it.round).any(|round| task_id(turn.name(), it.index, round) == id);
    Ok(tasks(turn)?.into_iter().find(is_its))
}

/// How a provider says that it will not make something: nothing comes of that any more.
const REFUSALS: [&str; 6] = [
    "content_rejected",
    "generation_input_invalid",
    "model_unknown",
    "provider_credits_insufficient",
    "provider_refused",
    "provider_unauthorized",
];

impl TaskRow {
    /// Whether its artifact is made, and the library has not confirmed that it has it.
    pub(super) fn is_unconfirmed(&self, kept: &Kept) -> bool {
        self.state == TaskState::Ready && self.ready_told.is_none_or(|it| kept.heard < it)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == TaskState::Ready
    }

    /// When the time of its provider is over; nothing while it waits in our own line.
    pub(super) fn deadline(&self, kept: &Kept) -> Option<Timestamp> {
        let timeout = i64::try_from(kept.timeout_ms).unwrap_or(i64::MAX);
        self.submitted_at.map(|it| Timestamp(it.saturating_add(timeout)))
    }

    /// Whether it was given up or cancelled while its provider may still be at it. The output of a
    /// cancelled task is not wanted, but its cost counts.
    pub(super) fn may_still_come(&self) -> bool {
        let is_refused = self.error.as_ref().is_some_and(|it| REFUSALS.contains(&&*it.code));
        let is_given_up = match self.state {
            TaskState::Failed => !is_refused,
            // Only its provider reports an error of a cancelled task.
            TaskState::Cancelled => {
                self.error.is_none() && (self.submitted_at.is_some() || self.may_be_known)
            }
            TaskState::Pending | TaskState::Submitted | TaskState::Streaming | TaskState::Ready => {
                false
            }
        };
        is_given_up && self.made.is_none()
    }

    /// Whether it is made, and paid for, but not here: it may be fetched once more.
    pub(super) fn may_be_fetched(&self) -> bool {
        let is_lost =
            |it: &TaskError| matches!(&*it.code, "output_gone" | "output_content_invalid");
        self.made.is_some() && !self.error.as_ref().is_some_and(is_lost)
    }

    pub(super) fn view(&self, generation: &str) -> TaskView {
        TaskView {
            index: self.index,
            status: self.state,
            progress: self.progress,
            artifact_id: artifact_id(generation, self.index),
            error: self.error.clone().filter(|_| self.state == TaskState::Failed),
        }
    }

    /// The artifact, if there is one.
    pub(super) fn artifact(&self, generation: &str, request: &Request) -> Option<Artifact> {
        if self.state != TaskState::Ready {
            return None;
        }
        let (made, fetched) = (self.made.as_ref()?, self.fetched.as_ref()?);
        Some(Artifact {
            id: artifact_id(generation, self.index),
            generation_id: generation.into(),
            index: self.index,
            model: request.model.clone(),
            provider: request.provider.clone(),
            content_type: fetched.content_type.clone(),
            extension: fetched.extension.clone(),
            size: fetched.size,
            width: fetched.width,
            height: fetched.height,
            seed: made.seed,
            cost: made.cost,
            response: made.response.clone(),
            submitted_at: self.submitted_at,
            created_at: self.ready_at.unwrap_or_default(),
            tags: Vec::new(),
        })
    }
}

pub(super) fn counts(tasks: &[TaskRow]) -> Counts {
    let count = |state| tasks.iter().filter(|it| it.state == state).count() as u32;
    Counts {
        ready: count(TaskState::Ready),
        failed: count(TaskState::Failed),
        cancelled: count(TaskState::Cancelled),
    }
}

/// How a generation with these tasks is.
pub(super) fn status(tasks: &[TaskRow]) -> GenerationStatus {
    let counts = counts(tasks);
    if tasks.iter().any(|it| !it.state.is_final()) {
        GenerationStatus::Active
    } else if 0 < counts.ready {
        GenerationStatus::Ready
    } else if 0 < counts.failed {
        GenerationStatus::Failed
    } else {
        GenerationStatus::Cancelled
    }
}

/// All of it, as everybody may see it.
pub(super) fn generation(turn: &Turn<GenerationManager>, kept: &Kept) -> Result<Generation> {
    let (id, tasks) = (turn.name(), tasks(turn)?);
    Ok(Generation {
        id: id.into(),
        workspace: kept.workspace.clone(),
        status: status(&tasks),
        request: kept.request.clone(),
        counts: counts(&tasks),
        tasks: tasks.iter().map(|it| it.view(id)).collect(),
        artifacts: tasks.iter().filter_map(|it| it.artifact(id, &kept.request)).collect(),
        created_at: kept.created_at,
        completed_at: kept.completed_at,
        library_error: None,
    })
}
