//! What a check says.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The result of all checks.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Examination {
    /// Whether no check failed.
    pub(crate) ok: bool,
    /// What was looked at.
    pub(crate) checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) name: String,
    /// How it is.
    pub(crate) status: Verdict,
    /// What was found, and what to do if it is not well.
    pub(crate) detail: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Well.
    Ok,
    /// Worth a look.
    Warning,
    /// Not well.
    Failed,
}

impl Verdict {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failed => "failed",
        }
    }
}

impl Check {
    /// All is well.
    pub(super) fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Ok, detail: detail.into() }
    }

    /// Worth a look.
    pub(super) fn warning(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Warning, detail: detail.into() }
    }

    /// Not well.
    pub(super) fn failed(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Failed, detail: detail.into() }
    }
}
