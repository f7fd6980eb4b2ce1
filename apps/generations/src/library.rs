//! The library of a workspace: what is kept for ever. Generations are in it from the moment that
//! they are asked for, artifacts as they are made.

mod messages;
mod mirror;
mod query;
mod record;
mod rows;
mod tags;

use steadfast_core::{Object, Outcome};

pub use self::messages::{
    DeleteArtifact, DeleteGeneration, GenerationChanged, GetArtifact, GetGeneration, ListArtifacts,
    ListGenerations, ListTags, Narrow, ReserveId, SetTag, TagCount, TagTarget, Unreferred,
};
pub use self::mirror::Changed;
use self::rows::SCHEMA;
pub use self::tags::{TAG_MAX, TAGS_MAX, is_tag};
use crate::{Discard, DiscardAgain};

/// The library of one workspace.
#[derive(Clone, Copy, Debug)]
pub struct Library;

impl Object for Library {
    const CLASS: &'static str = "library";
    type Calls = (
        ReserveId,
        GenerationChanged,
        DeleteGeneration,
        DeleteArtifact,
        SetTag,
        GetGeneration,
        ListGenerations,
        GetArtifact,
        ListArtifacts,
        ListTags,
        Unreferred,
        Outcome<Discard>,
        DiscardAgain,
    );
    const MIGRATIONS: &'static [&'static str] = &[SCHEMA];
}
