//! The server itself: whether it lives, whether it is ready, and what is wrong with it.

use clap::{Args, builder::FalseyValueParser};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::operation::operation;

/// Check the invariants, the disk and the settings.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Examine {
    /// Read every row of a large store as well, which takes a while
    #[arg(long, env = "STEADFAST_DEEP", value_parser = FalseyValueParser::new())]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
}
operation!(Examine => Examination, Get "/v1/doctor" (), Operator,
    errors []);

/// The result of all checks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Examination {
    /// Whether no check failed.
    pub ok: bool,
    /// Each check.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it is.
    pub status: Verdict,
    /// What was found, and what to do if it is not well.
    pub detail: String,
}

impl Check {
    /// All is well.
    pub fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Ok, detail: detail.into() }
    }

    /// Worth a look.
    pub fn warning(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Warning, detail: detail.into() }
    }

    /// Not well.
    pub fn failed(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Failed, detail: detail.into() }
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Well.
    Ok,
    /// Worth a look.
    Warning,
    /// Not well.
    Failed,
}

impl Verdict {
    /// The verdict as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failed => "failed",
        }
    }
}

/// The process lives.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always `ok`.
    pub status: String,
}

/// Whether requests should come here.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not ready`.
    pub status: String,
    /// Each reason for or against.
    pub checks: Vec<ReadinessCheck>,
}

/// One reason for or against.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReadinessCheck {
    /// What was looked at.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// How it is.
    pub detail: String,
}
