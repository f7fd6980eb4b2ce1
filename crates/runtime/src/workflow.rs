//! Workflows: for now, what a run of one is started with. It waits there.

use std::{fmt, marker::PhantomData};

use crate::Body;

/// A workflow, by its name and by what its runs take.
pub trait Workflow: Send + Sync + Sized + 'static {
    /// Its name. It is stored: it may never change.
    const NAME: &'static str;
    /// What a run begins with.
    type Input: Body;
    /// What it ends with.
    type Output: Body;

    /// The address of one run: plain data.
    fn at(id: impl Into<String>) -> RunAddress<Self> {
        RunAddress { id: id.into(), workflow: PhantomData }
    }
}

/// Names one run of a workflow.
pub struct RunAddress<W> {
    id: String,
    workflow: PhantomData<fn() -> W>,
}

impl<W> RunAddress<W> {
    /// Its id within the workflow.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl<W> Clone for RunAddress<W> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), workflow: PhantomData }
    }
}

impl<W: Workflow> fmt::Debug for RunAddress<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run/{}/{}", W::NAME, self.id)
    }
}
