//! Lists of runs.

use super::{Params, PostgresStore};
use crate::{
    RunStatus, RunSummary, StoreError,
    sql::{
        self,
        runs::{COUNT_ADDRESSES, FEW, Page, count_statement},
    },
};

impl PostgresStore {
    pub(super) async fn list_runs(
        &self,
        page: &Page,
        limit: i64,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let (workflow, (at, id), since) = (&page.workflow, &page.before, &page.since);
        let (Some(names), Some(addresses)) = (&page.names, page.addresses()) else {
            let params: Params<'_> = &[workflow, at, id, since, &limit];
            return self.list(&page.statement(false), params, sql::run_summary).await;
        };
        let params: Params<'_> = &[&addresses.0, &addresses.1, &FEW];
        let named = self.list(COUNT_ADDRESSES, params, |row| row.int(0)).await?;
        let are_few = named.first().is_none_or(|it| *it < FEW);
        let (from, until) = if are_few { &addresses } else { names };
        let params: Params<'_> = &[workflow, at, id, since, &limit, from, until];
        self.list(&page.statement(are_few), params, sql::run_summary).await
    }

    pub(super) async fn number_of_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: i64,
    ) -> Result<usize, StoreError> {
        let params: Params<'_> = &[&workflow, &max];
        let found = self.list(&count_statement(status), params, |row| row.count(0)).await?;
        Ok(found.first().map_or(0, |it| *it as usize))
    }
}
