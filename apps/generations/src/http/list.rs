//! Lists: their filters and cursors.

use serde::{Deserialize, Serialize};
use steadfast_web::Problem;

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
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

impl ListQuery {
    pub(super) fn status(&self) -> Result<Option<GenerationStatus>, Problem> {
        let Some(status) = self.status.as_deref().filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let found = GenerationStatus::from_name(status);
        let detail = "`status` must be active, ready, failed or cancelled";
        found.map(Some).ok_or_else(|| Problem::invalid("bad_request", detail))
    }

    /// The number to ask for: one more than is shown, to know whether there is more.
    pub(super) fn narrow(&self) -> Result<(Narrow, usize), Problem> {
        let limit = self.limit.unwrap_or(50);
        if !(1..=200).contains(&limit) {
            return Err(Problem::invalid("bad_request", "`limit` must be 1 to 200"));
        }
        let after = cursor(self.cursor.as_deref())?;
        let some = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        let narrow = Narrow {
            model: some(&self.model),
            tag: some(&self.tag),
            since: self.since,
            until: self.until,
            after,
            limit: limit + 1,
        };
        Ok((narrow, limit as usize))
    }
}

/// Parses the cursor after which a list continues; none for the first page.
pub(super) fn cursor(text: Option<&str>) -> Result<Option<(i64, String)>, Problem> {
    let Some(text) = text.filter(|it| !it.is_empty()) else { return Ok(None) };
    let after = text.split_once(':').and_then(parse);
    after.map(Some).ok_or_else(|| {
        Problem::invalid("bad_request", "`cursor` must be the `next` of another page")
    })
}

fn parse((at, id): (&str, &str)) -> Option<(i64, String)> {
    Some((at.parse().ok()?, id.to_owned()))
}

/// A page of a list.
pub(super) fn page<T>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> (i64, &str)) -> List<T> {
    let is_more = limit < items.len();
    items.truncate(limit);
    let last = items.last().filter(|_| is_more).map(key);
    let next = last.map(|(at, id)| format!("{at}:{id}"));
    List { items, next }
}
