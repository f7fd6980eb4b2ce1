//! The statements that read runs.

use super::queries::{self, address};
use crate::{EntityKind, RunCursor, RunFilter, RunStatus};

/// The columns that [`super::run_summary`] reads, and the id, which lists are sorted by.
macro_rules! runs {
    ($rest:literal) => {
        concat!(
            "SELECT r.workflow, r.name, r.status, r.created_at, r.changed_at, r.expires_at, ",
            "r.entity ",
            $rest
        )
    };
}

pub(crate) const RUN: &str =
    runs!("FROM run r WHERE r.number = (SELECT e.origin FROM entity e WHERE e.id = ?1)");
pub(crate) const EXPIRED: &str = runs!(
    "FROM run r WHERE r.expires_at IS NOT NULL AND r.expires_at <= ?1 \
     ORDER BY r.expires_at, r.entity LIMIT ?2"
);
pub(crate) const ALL_RUNS: &str = runs!("FROM run r ORDER BY r.entity");

/// How many runs there are, up to a number.
pub(crate) fn count_statement(status: Option<RunStatus>) -> String {
    let status = status.map_or(String::new(), |it| format!("AND status = '{}'", it.tag()));
    format!(
        "SELECT count(*) FROM (SELECT 1 AS one FROM run WHERE workflow = ?1 {status} LIMIT ?2) \
         AS found"
    )
}

/// How many addresses are between two texts, up to a number.
pub(crate) const COUNT_ADDRESSES: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 AS one FROM entity e WHERE ",
    address!(),
    " >= ?1 AND ",
    address!(),
    " < ?2 LIMIT ?3) AS found"
);

/// Up to so many runs are found by their names and sorted; where more have the prefix, the list is
/// walked from the newest on and others are passed over.
pub(crate) const FEW: i64 = 1_000;

const NEWEST: &str = "ORDER BY created_at DESC, entity DESC LIMIT ?5";

/// A page of a list of runs, as the statements take it: the workflow is `?1`, `before` `?2` and
/// `?3`, `since` `?4`, the limit `?5`, and, if there is a prefix, the ids, or their addresses where
/// they are few, are between `?6` and `?7`.
pub(crate) struct Page {
    pub(crate) workflow: String,
    status: Option<RunStatus>,
    /// The list goes on behind this.
    pub(crate) before: (i64, Vec<u8>),
    pub(crate) since: i64,
    /// The ids that have the prefix are between these.
    pub(crate) names: Option<(String, String)>,
}

impl Page {
    pub(crate) fn new(filter: RunFilter<'_>, after: Option<RunCursor>) -> Self {
        // No id comes before the empty one: nothing at that time is left.
        let until = filter.until.map_or((i64::MAX, Vec::new()), |it| (it.0, Vec::new()));
        let after = after.map(|it| (it.created_at.0, it.id.0.to_vec()));
        Self {
            workflow: filter.workflow.to_owned(),
            status: filter.status,
            before: after.map_or(until.clone(), |it| it.min(until)),
            since: filter.since.map_or(i64::MIN, |it| it.0),
            names: (!filter.prefix.is_empty()).then(|| queries::names(filter.prefix, None)),
        }
    }

    /// The addresses of the ids that have the prefix are between these.
    pub(crate) fn addresses(&self) -> Option<(String, String)> {
        let names = self.names.as_ref()?;
        Some(queries::addresses(EntityKind::Run, &self.workflow, names))
    }

    /// The statement. `are_few`: so few have the prefix that all of them are looked at.
    pub(crate) fn statement(&self, are_few: bool) -> String {
        if are_few {
            return self.by_name();
        }
        match self.status {
            Some(status) => self.of_status(status),
            None => {
                let of_each = RunStatus::ALL.map(|it| {
                    format!("SELECT * FROM ({}) AS {}_runs", self.of_status(it), it.tag())
                });
                format!("{} {NEWEST}", of_each.join(" UNION ALL "))
            }
        }
    }

    fn of_status(&self, status: RunStatus) -> String {
        let named = self.names.as_ref().map_or("", |_| "AND r.name >= ?6 AND r.name < ?7");
        format!(
            "{} WHERE r.workflow = ?1 AND r.status = '{}' AND {WITHIN} {named} {NEWEST}",
            runs!("FROM run r"),
            status.tag()
        )
    }

    fn by_name(&self) -> String {
        let of_status = self.status.map(|it| format!("AND r.status = '{}'", it.tag()));
        let address = address!();
        format!(
            "{} WHERE {address} >= ?6 AND {address} < ?7 AND e.class = ?1 \
             AND {WITHIN} {} ORDER BY r.created_at DESC, r.entity DESC LIMIT ?5",
            runs!("FROM entity e JOIN run r ON r.number = e.origin"),
            of_status.unwrap_or_default()
        )
    }
}

const WITHIN: &str = "(r.created_at, r.entity) < (?2, ?3) AND r.created_at >= ?4";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plans::{has, steps};

    #[test]
    fn lists_counts_and_expiry_walk_an_index() {
        let bounds = "created_at>? AND (created_at,entity)<(?,?)";
        for status in [None, Some(RunStatus::Errored)] {
            for prefix in ["", "a"] {
                let filter = RunFilter { status, prefix, ..RunFilter::of("flow") };
                let steps = steps(&Page::new(filter, None).statement(false));
                // A list of all states sorts as many rows of each as it shows.
                let sorts = has(&steps, "B-TREE") && status.is_some();
                assert!(has(&steps, bounds) && !sorts, "{steps:#?}");
            }
            assert!(has(&steps(&count_statement(status)), "COVERING INDEX run_status"));
        }
        let expired = steps(EXPIRED);
        assert!(has(&expired, "run_expires") && !has(&expired, "B-TREE"), "{expired:#?}");
    }

    #[test]
    fn few_runs_with_a_prefix_are_found_by_their_names() {
        let filter = RunFilter { prefix: "a", ..RunFilter::of("flow") };
        let by_name = steps(&Page::new(filter, None).statement(true));
        let names = "entity_address (<expr>>? AND <expr><?)";
        assert!(
            has(&by_name, names) && has(&by_name, "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
            "{by_name:#?}"
        );
        assert!(has(&steps(COUNT_ADDRESSES), names));
    }
}
