//! Questions in SQL on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::object::{Query, Rows};
use utoipa::ToSchema;

/// A question to one object.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Sql)]
pub(crate) struct SqlBody {
    /// One statement that only reads.
    pub(crate) sql: String,
    /// An array for `?`, or an object of names for `:name`. A blob is `{"blob": "<hex>"}`.
    #[serde(default)]
    pub(crate) params: Value,
    /// After which turn; left out, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<i64>,
}

impl SqlBody {
    /// The question.
    pub(crate) fn query(self) -> Query {
        let Self { sql, params, turn } = self;
        Query { sql, params, turn }
    }
}

/// What a statement found.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SqlRows {
    /// After which turn.
    pub(crate) turn: i64,
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
    /// The rows. NULL, integers, finite reals and text are as JSON has them; a blob is
    /// `{"blob": "<hex>"}`, an infinite real `{"real": "Inf"}` or `{"real": "-Inf"}`, and text that
    /// is not UTF-8 `{"text": "<hex>"}`.
    pub(crate) rows: Vec<Vec<Value>>,
    /// Whether there are more: an answer ends at 1,000 rows, or at about 4 MiB.
    pub(crate) truncated: bool,
}

impl SqlRows {
    /// The wire form.
    pub(crate) fn of(found: Rows) -> Self {
        let Rows { turn, columns, rows, truncated } = found;
        Self { turn, columns, rows, truncated }
    }
}
