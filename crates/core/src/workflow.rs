//! Workflows: async functions whose steps survive crashes. The result of a step is recorded before
//! the next one begins. After a crash or a long wait, the function runs again from its start and
//! reads the results from the record.
//!
//! | To understand | read |
//! | --- | --- |
//! | what a program declares and calls | `definition.rs`, `event.rs`, `turn.rs` |
//! | what the code of a run uses | `ctx.rs`, `step.rs`, `operations.rs` |
//! | the record, and the fold of it | `record.rs`, `fold.rs`, `status.rs`, `fold_cache.rs` |
//! | how a run is driven | `begin.rs`, `active.rs`, `drive.rs` and its folder, `state.rs` |
//! | operations from outside | `runs.rs`, `control.rs`, `error.rs` |
//! | lists and views | `list.rs`, `look.rs`, `view.rs` and its folder |

mod active;
mod begin;
mod control;
mod ctx;
mod definition;
mod drive;
mod error;
mod event;
mod fold;
mod fold_cache;
mod list;
mod look;
mod operations;
mod record;
mod runs;
mod state;
mod status;
mod step;
mod turn;
mod view;

pub(crate) use self::ctx::Environment;
pub use self::{
    begin::StartedRecord,
    ctx::{Ctx, Either},
    definition::{RunAddress, RunOptions, Workflow},
    error::RunError,
    event::{Event, RunEvent},
    list::{RunItem, RunList, RunQuery, WorkflowCounts},
    look::HistoryEntry,
    record::{Progress, Report, StepInput},
    runs::Runs,
    status::{Phase, StartOutcome, Status, StepStatus},
    step::{Backoff, Retry, Step},
    turn::{RunEnded, RunStart},
    view::{AttemptView, EventView, FailureView, ProgressView, RunView, StepView, WaitView},
};
pub use crate::body::Time;
