//! Quotas of organizations over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Code, Page,
    quotas::{ListQuotas, Quota, RemoveQuota, RemovedQuota, SetQuota, ShowQuota},
};
use steadfast_core::is_organization;
use steadfast_web::Problem;

use crate::{operation::ApiRoutes, server::Server};

pub(super) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list).operation(show).operation(set).operation(remove)
}

pub(crate) async fn list(server: Arc<Server>, it: ListQuotas) -> Result<Page<Quota>, Problem> {
    let limit = it.limit.rows();
    let mut found = server.buckets()?.quotas(it.cursor.as_deref(), limit + 1).await?;
    let is_more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|it| it.organization.clone());
    Ok(Page { items: found, next })
}

async fn show(server: Arc<Server>, it: ShowQuota) -> Result<Quota, Problem> {
    let found = server.buckets()?.quota(&it.organization).await?;
    found.ok_or_else(|| no_quota(&it.organization))
}

async fn set(server: Arc<Server>, it: SetQuota) -> Result<Quota, Problem> {
    let name = &it.organization;
    if !is_organization(name) {
        let detail = format!(
            "`{name}` is not the name of an organization; write up to 100 letters, digits, `.`, \
             `_` or `-`"
        );
        return Err(Problem::of(Code::InvalidName, detail));
    }
    let buckets = server.buckets()?;
    buckets.set_quota(name, (&it).into()).await?;
    let found = buckets.quota(name).await.map_err(|it| Problem::from(it).after_change())?;
    found.ok_or_else(|| no_quota(name))
}

async fn remove(server: Arc<Server>, it: RemoveQuota) -> Result<RemovedQuota, Problem> {
    let RemoveQuota { organization } = it;
    match server.buckets()?.remove_quota(&organization).await? {
        true => Ok(RemovedQuota { organization }),
        false => Err(no_quota(&organization)),
    }
}

fn no_quota(organization: &str) -> Problem {
    let detail = format!("organization `{organization}` has no quota; see `steadfast quotas list`");
    Problem::of(Code::QuotaNotFound, detail)
}
