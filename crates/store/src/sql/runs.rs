//! The statements that read runs.

use super::{
    objects::{self, COUNT_ADDRESSES, SORT_KEY},
    statement::{Select, Statement, params, statements},
    table::list,
};
use crate::{EntityKind, Position, RunPage, RunStatus, RunSummary};

/// Runs, and the id, which lists are sorted by.
fn select(from: &str) -> String {
    format!("SELECT {}, r.entity FROM {from}", list::<(Position, RunSummary)>("r."))
}

statements! {
    pub(super) RUN =
        select("run r WHERE r.number = (SELECT e.origin FROM entity e WHERE e.id = ?1)");
    pub(super) EXPIRED = select(
        "run r WHERE r.expires_at IS NOT NULL AND r.expires_at <= ?1 \
         ORDER BY r.expires_at, r.entity LIMIT ?2"
    );
}

/// The number of runs, up to a limit.
pub(super) fn count(status: Option<RunStatus>) -> String {
    let status = status.map_or(String::new(), |it| format!("AND status = '{}'", it.tag()));
    format!(
        "SELECT count(*) FROM (SELECT 1 AS one FROM run WHERE workflow = ?1 {status} LIMIT ?2) \
         AS found"
    )
}

/// The number of ids of a workflow that begin with a prefix, up to a limit.
pub(super) fn names(workflow: &str, prefix: &str, max: usize) -> Select {
    let names = objects::names(prefix, None);
    let (from, until) = objects::addresses(EntityKind::Run, workflow, &names);
    (&COUNT_ADDRESSES, params![from, until, max])
}

const NEWEST: &str = "ORDER BY created_at DESC, entity DESC LIMIT ?5";
const WITHIN: &str = "(r.created_at, r.entity) < (?2, ?3) AND r.created_at >= ?4";

/// A page of a list of runs: the workflow is `?1`, the page ends before `?2` and `?3` and begins at
/// `?4`, the limit is `?5`. With a prefix, the ids, or their addresses where the runs are found by
/// name, are between `?6` and `?7`.
pub(super) fn page(page: &RunPage, limit: usize) -> Statement {
    // No id precedes the empty one: nothing at that time is left.
    let until = page.until.map_or((i64::MAX, Vec::new()), |it| (it.0, Vec::new()));
    let after = page.after.map(|it| (it.created_at.0, it.id.0.to_vec()));
    let (at, id) = after.map_or(until.clone(), |it| it.min(until));
    let since = page.since.map_or(i64::MIN, |it| it.0);
    let mut params = params![page.workflow.clone(), at, id, since, limit];
    if !page.prefix.is_empty() {
        let names = objects::names(&page.prefix, None);
        let (from, until) = if page.by_name {
            objects::addresses(EntityKind::Run, &page.workflow, &names)
        } else {
            names
        };
        params.extend(params![from, until]);
    }
    Statement::of(page_sql(page), params)
}

fn page_sql(page: &RunPage) -> String {
    if page.by_name && !page.prefix.is_empty() {
        return by_name(page);
    }
    match page.status {
        Some(status) => of_status(page, status),
        None => {
            let of_each = RunStatus::ALL
                .map(|it| format!("SELECT * FROM ({}) AS {}_runs", of_status(page, it), it.tag()));
            format!("{} {NEWEST}", of_each.join(" UNION ALL "))
        }
    }
}

fn of_status(page: &RunPage, status: RunStatus) -> String {
    let named = if page.prefix.is_empty() { "" } else { "AND r.name >= ?6 AND r.name < ?7" };
    format!(
        "{} WHERE r.workflow = ?1 AND r.status = '{}' AND {WITHIN} {named} {NEWEST}",
        select("run r"),
        status.tag()
    )
}

fn by_name(page: &RunPage) -> String {
    let of_status = page.status.map(|it| format!("AND r.status = '{}'", it.tag()));
    format!(
        "{} WHERE {SORT_KEY} >= ?6 AND {SORT_KEY} < ?7 AND e.class = ?1 \
         AND {WITHIN} {} ORDER BY r.created_at DESC, r.entity DESC LIMIT ?5",
        select("entity e JOIN run r ON r.number = e.origin"),
        of_status.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plans::{has, page as first, steps};

    #[test]
    fn lists_counts_and_expiry_walk_an_index() {
        let bounds = "created_at>? AND (created_at,entity)<(?,?)";
        for status in [None, Some(RunStatus::Errored)] {
            for prefix in ["", "a"] {
                let listed = page(&RunPage { status, prefix: prefix.into(), ..first() }, 9);
                let steps = steps(&listed.sql);
                // A list of all states sorts as many rows of each as it returns.
                let sorts = has(&steps, "B-TREE") && status.is_some();
                assert!(has(&steps, bounds) && !sorts, "{steps:#?}");
            }
            assert!(has(&steps(&count(status)), "COVERING INDEX run_status"));
        }
        let expired = steps(&EXPIRED);
        assert!(has(&expired, "run_expires") && !has(&expired, "B-TREE"), "{expired:#?}");
    }

    #[test]
    fn few_runs_with_a_prefix_are_found_by_their_names() {
        let named = page(&RunPage { prefix: "a".into(), by_name: true, ..first() }, 9);
        let by_name = steps(&named.sql);
        let names = "entity_address (<expr>>? AND <expr><?)";
        assert!(
            has(&by_name, names) && has(&by_name, "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
            "{by_name:#?}"
        );
        assert!(has(&steps(&COUNT_ADDRESSES), names));
    }
}
