//! The filters of lists.

use serde::Deserialize;
use steadfast_web::{Code, Limit, PageRequest, Problem};

use crate::{GenerationStatus, Narrow};

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    pub(super) tag: Option<String>,
    #[serde(default)]
    pub(super) generation: Option<String>,
    #[serde(default)]
    since: Option<i64>,
    #[serde(default)]
    until: Option<i64>,
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    limit: Limit,
}

impl ListQuery {
    pub(super) fn status(&self) -> Result<Option<GenerationStatus>, Problem> {
        let Some(status) = self.status.as_deref().filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let found = GenerationStatus::from_name(status);
        let detail = "`status` must be active, ready, failed or cancelled";
        found.map(Some).ok_or_else(|| Problem::of(Code::BadRequest, detail))
    }

    /// The requested page. A generation has many parts, so a page has at most 200 of them.
    pub(super) fn page(&self) -> Result<PageRequest, Problem> {
        PageRequest::new(self.limit, self.cursor.as_deref())?.at_most(200)
    }

    /// The filters of a page.
    pub(super) fn narrow(&self, page: &PageRequest) -> Result<Narrow, Problem> {
        let some = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        Ok(Narrow {
            model: some(&self.model),
            tag: some(&self.tag),
            since: self.since,
            until: self.until,
            after: page.after_time()?,
            limit: page.rows_to_read(),
        })
    }
}
