//! Quotas of organizations.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use steadfast_api::{
    Code, Page as List,
    quotas::{ListQuotas, Quota, QuotaUse, RemoveQuota, RemovedQuota, SetQuota, ShowQuota, kinds},
};
use steadfast_core::is_organization;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    page_of,
};

use crate::{
    cli::noun::Noun,
    list::Columns,
    operation::ApiRoutes,
    pages::{
        PageRoute,
        components::{command, empty, text},
        get,
    },
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list).operation(show).operation(set).operation(remove)
}

/// The pages of the console.
pub(crate) fn pages() -> [PageRoute; 1] {
    [get("/quotas", list_page)]
}

pub(crate) async fn list(server: Arc<Server>, it: ListQuotas) -> Result<List<Quota>, Problem> {
    let limit = it.limit.rows();
    let found = server.buckets()?.quotas(it.cursor.as_deref(), limit + 1).await?;
    Ok(page_of(found, limit, |it| it.organization.clone(), |it| it))
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

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Quota> {
    let limit = |at: usize| {
        move |it: &Quota| {
            let (_, used, write) = kinds(it)[at];
            of(used, write)
        }
    };
    let bar = |at: usize| {
        move |it: &Quota| {
            let (kind, used, write) = kinds(it)[at];
            bar(kind, used, write)
        }
    };
    Columns::<Quota>::new()
        .text("Organization", |it| it.organization.clone())
        .text("Bytes", limit(0))
        .markup(bar(0))
        .text("Objects", limit(1))
        .markup(bar(1))
        .text("Spend this month", limit(2))
        .markup(bar(2))
        .console("Count", |it| text(if it.is_counting { "in progress" } else { "complete" }))
}

/// A use and its limit.
pub(crate) fn of(it: QuotaUse, write: fn(u64) -> String) -> String {
    let limit = it.limit.map_or_else(|| "no limit".to_owned(), write);
    format!("{} of {limit}", write(it.used))
}

/// Lists the quotas, each with a bar.
async fn list_page(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListQuotas>,
) -> Result<Page, Problem> {
    let found = list(server, query).await?;
    let set = "steadfast quotas set acme --bytes 10GiB --objects 100000 --spend 50";
    let content = html! {
        h1 { "Quotas" }
        p.quiet {
            "Bytes, objects and spend of organizations, with their limits. A blob belongs to the "
            "organization that is the first segment of its key."
        }
        (columns().page(
            &found, &empty("No organization has a quota.", &command("Set one:", set)), "/quotas", ""
        ))
    };
    Ok(console("Quotas", Section::None, content))
}

fn bar(kind: &str, it: QuotaUse, write: fn(u64) -> String) -> Markup {
    let used = write(it.used);
    let Some(limit) = it.limit else { return html! { (used) } };
    html! {
        meter aria-label=(kind) min="0" max=(limit.max(1)) high=(limit / 10 * 9)
            value=(it.used.min(limit.max(1))) {}
        " " (used) " of " (write(limit))
    }
}

pub(crate) fn verbs() -> Noun {
    Noun::new("quotas", "Limit the bytes, blobs and spend of organizations")
        .verb::<ListQuotas>("list", &["quotas list"], |_, page| {
            let empty = "no quotas; set one with `steadfast quotas set ORG --bytes 10GiB`\n";
            columns().list(&page.items, empty)
        })
        .verb::<ShowQuota>("show", &["quotas show acme"], |_, quota| show_text(quota))
        .verb::<SetQuota>(
            "set",
            &["quotas set acme --bytes 10GiB --objects 100000 --spend 50"],
            |_, quota| {
                format!(
                    "set the quota of organization {}\n{}",
                    quota.organization,
                    show_text(quota)
                )
            },
        )
        .destroys::<RemoveQuota>(
            "remove",
            &["quotas remove acme --yes"],
            (
                |it: &RemoveQuota| format!("Remove the quota of organization {}?", it.organization),
                |it: &RemoveQuota, _: &RemovedQuota| {
                    format!("removed the quota of organization {}\n", it.organization)
                },
            ),
        )
}

fn show_text(quota: &Quota) -> String {
    let rows = kinds(quota).map(|(kind, it, write)| format!("{kind:<18}{}\n", of(it, write)));
    let note = if quota.is_counting { "earlier blobs are still being counted\n" } else { "" };
    format!("{}{note}", rows.concat())
}
