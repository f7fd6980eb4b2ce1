//! The page: the request form, generations that run, and the library. It works without script; with
//! one it is live.

use std::sync::LazyLock;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_web::{Asset, Cursor, Limit, ListPage, Page, PageRequest, Params, Problem};

use super::{
    cards::{Shown, active, inspector, library, request_form},
    forms::{Form, act},
    list::ListQuery,
    site::Site,
    workspace::Workspace,
};
use crate::{
    Artifact, Generation, GenerationStatus, GetArtifact, GetGeneration, ListArtifacts,
    ListGenerations, ListTags, Narrow,
};

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::css("/generations-assets/generations.css", include_str!("../../assets/generations.css"))
});

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::js("/generations-assets/generations.js", include_str!("../../assets/generations.js"))
});

/// Artifacts of one page.
const PAGE: u32 = 48;
/// Generations in progress that one page shows above the library.
const ACTIVE: u32 = 50;
/// Generations that are looked at for what did not go well.
const RECENT: u32 = 12;

/// The query of the page beside the filters.
#[derive(Debug, Default, Deserialize)]
pub(super) struct View {
    artifact: Option<String>,
    /// A cursor: only generations in progress that are older.
    older: Option<String>,
}

pub(super) async fn show(
    State(site): State<Site>,
    Params(query): Params<ListQuery>,
    Params(view): Params<View>,
    workspace: Result<Workspace, Problem>,
) -> Response {
    let shown = match workspace {
        Ok(workspace) => collect(&site, workspace, &query, &view).await,
        Err(problem) => Err(problem),
    };
    match shown {
        Ok(shown) => page(&main(&site, &shown)).into_response(),
        Err(problem) => refused(problem),
    }
}

async fn collect(
    site: &Site,
    workspace: Workspace,
    query: &ListQuery,
    view: &View,
) -> Result<Shown, Problem> {
    let library = || workspace.library();
    let page = PageRequest::new(Limit::of(PAGE), query.cursor.as_deref())?;
    // Before the artifacts: a generation that has ended here has all of its artifacts there. The
    // page asks again only while it shows one in progress.
    let (active, older) = under_way(site, &workspace, view).await?;
    let ask = ListArtifacts { generation: query.generation.clone(), narrow: query.narrow(&page)? };
    let artifacts = site.objects.call(library(), ask).await?;
    let cursor = |it: &Artifact| Cursor::Time(it.created_at, it.id.clone());
    let ListPage { items: artifacts, next } = page.page(artifacts, cursor, |it| it);
    let inspected = match &view.artifact {
        Some(id) => inspect(site, &workspace, id).await?,
        None => None,
    };
    let tags = site.objects.call(library(), ListTags).await?;
    let tag = query.tag.clone().filter(|it| !it.is_empty());
    Ok(Shown { workspace, active, older, artifacts, next, tags, tag, inspected })
}

/// A page of generations in progress, and the cursor of the next page. The first page also has
/// recent generations that ended without all of their artifacts.
async fn under_way(
    site: &Site,
    workspace: &Workspace,
    view: &View,
) -> Result<(Vec<Generation>, Option<String>), Problem> {
    let page = PageRequest::new(Limit::of(ACTIVE), view.older.as_deref())?;
    let after = page.after_time()?;
    let is_first = after.is_none();
    let generations = |status, limit, after| {
        let narrow = Narrow { limit, after, ..Narrow::default() };
        site.objects.call(workspace.library(), ListGenerations { status, narrow })
    };
    let running = Some(GenerationStatus::Active);
    let found = generations(running, page.rows_to_read(), after).await?;
    let found = page.page(found, |it| Cursor::Time(it.created_at, it.id.clone()), |it| it);
    let mut active = Vec::new();
    for generation in found.items {
        active.extend(super::api::find(site, workspace, &generation.id).await?);
    }
    let recent = if is_first { generations(None, RECENT, None).await? } else { Vec::new() };
    for generation in recent {
        // Finished generations are in the library below; the others are shown here.
        let is_whole = generation.counts.ready == generation.request.count;
        let is_shown = active.iter().any(|it| it.id == generation.id);
        if generation.status != GenerationStatus::Active && !is_whole && !is_shown {
            active.push(generation);
        }
    }
    active.sort_by(|one, two| (two.created_at, &two.id).cmp(&(one.created_at, &one.id)));
    Ok((active, found.next))
}

async fn inspect(
    site: &Site,
    workspace: &Workspace,
    id: &str,
) -> Result<Option<(Artifact, Option<Generation>)>, Problem> {
    let library = || workspace.library();
    let found = site.objects.call(library(), GetArtifact { id: id.into() }).await?;
    let Some(artifact) = found else { return Ok(None) };
    let id = artifact.generation_id.clone();
    let generation = site.objects.call(library(), GetGeneration { id }).await?;
    Ok(Some((artifact, generation)))
}

fn main(site: &Site, shown: &Shown) -> Markup {
    html! {
        (request_form(&site.providers.models(), &shown.workspace))
        section #live aria-label="In progress" aria-live="polite" {
            @for generation in &shown.active { (active(generation, &shown.workspace)) }
            @if let Some(older) = &shown.older {
                a.next href=(shown.workspace.link("/generations", &[("older", older)])) {
                    "Older generations in progress"
                }
            }
        }
        (library(shown))
        (inspector(shown))
    }
}

fn page(body: &Markup) -> Page {
    let content = html! { h1 { "Generations" } (body) };
    Page::new("Generations", content).style(&STYLE).script(&SCRIPT)
}

/// A page that says what is wrong.
fn refused(problem: Problem) -> Response {
    let body = html! {
        p.error role="alert" { (problem.detail()) }
        p { a href="/generations" { "Back" } }
    };
    problem.on_page(page(&body))
}

/// Does what a form of the page asks for, and comes back.
pub(super) async fn submit(
    State(site): State<Site>,
    workspace: Workspace,
    axum::Form(form): axum::Form<Form>,
) -> Response {
    match act(&site, workspace, form).await {
        Ok(to) => Redirect::to(&to).into_response(),
        Err(problem) => refused(problem),
    }
}
