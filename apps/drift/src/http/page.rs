//! The page: two URLs, and what differs. It works without script; with one it follows a comparison.

use std::sync::LazyLock;

use axum::{
    Form,
    extract::{Path, rejection::FormRejection},
    http::{HeaderMap, header},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_web::{Asset, IdempotencyKey, Limit, ListPage, Page, PageRequest, Params, Problem};

use super::{
    Site,
    api::{self, FORGOTTEN, SECRET_MISSING},
    panels::{form, pair_list, result},
};
use crate::{Brief, Comparison, ListComparisons, Shown, pair::pair_key_of, probe::is_redacted};

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::css("/drift-assets/drift.css", include_str!("../../assets/drift.css")));

pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/drift-assets/drift.js", include_str!("../../assets/drift.js")));

/// Rows of the lists of a page.
const ROWS: u32 = 20;

/// The requested page of the list of pairs.
#[derive(Deserialize)]
pub(super) struct PairsQuery {
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn home(
    site: Site,
    Params(query): Params<PairsQuery>,
    headers: HeaderMap,
) -> Response {
    let pairs = async {
        let page = PageRequest::new(Limit::of(ROWS), query.cursor.as_deref())?;
        api::find_pairs(&site, &page).await
    };
    match pairs.await {
        Ok(ListPage { items: pairs, next }) => page(&html! {
            (form(None, &own_address(&headers)))
            (pair_list(&pairs))
            @if let Some(next) = next { p { a.older href={ "/drift?cursor=" (next) } { "Older" } } }
        })
        .into_response(),
        Err(problem) => refused(problem, None, &own_address(&headers)),
    }
}

/// Where this server is, as the browser knows it: the demo is there.
fn own_address(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
    format!("http://{host}")
}

pub(super) async fn show(site: Site, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let found = async {
        let shown = api::find(&site, &id).await?;
        let pair = pair_key_of(&id).unwrap_or_default();
        let ask = ListComparisons { before: None, limit: ROWS };
        let history = site.objects.call(site.pair(pair), ask).await?;
        Ok::<(Shown, Vec<Brief>), Problem>((shown, history))
    };
    match found.await {
        Ok((shown, history)) => {
            let comparison = shown.result.as_ref().map(|it| (&it.comparison, &*id));
            page(&html! {
                (form(comparison, &own_address(&headers)))
                (result(&shown, &history))
            })
            .into_response()
        }
        Err(problem) => refused(problem, None, &own_address(&headers)),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    left_url: String,
    right_url: String,
    #[serde(default)]
    left_label: String,
    #[serde(default)]
    right_label: String,
    /// The comparison that is on the page, if there is one.
    #[serde(default)]
    again: String,
}

pub(super) async fn submit(
    site: Site,
    headers: HeaderMap,
    asked: Result<Form<Asked>, FormRejection>,
) -> Response {
    let own = own_address(&headers);
    let asked = match asked {
        Ok(Form(asked)) => asked,
        Err(error) => {
            return refused(Problem::invalid("invalid_request", error.body_text()), None, &own);
        }
    };
    let label = |it: String| Some(it.trim().to_owned()).filter(|it| !it.is_empty());
    let comparison = Comparison {
        left_url: asked.left_url.trim().into(),
        right_url: asked.right_url.trim().into(),
        left_label: label(asked.left_label),
        right_label: label(asked.right_label),
        head: false,
    };
    let begun = async {
        let comparison = match asked.again.as_str() {
            "" => comparison.clone(),
            earlier => api::as_before(&site, comparison.clone(), earlier).await?,
        };
        api::begin(&site, comparison, &IdempotencyKey::default()).await
    };
    match begun.await {
        Ok(shown) => Redirect::to(&format!("/drift/{}", shown.comparison_id)).into_response(),
        Err(problem) if [FORGOTTEN, SECRET_MISSING].contains(&problem.code()) => {
            // Missing values are entered again.
            let mut comparison = comparison;
            for url in [&mut comparison.left_url, &mut comparison.right_url] {
                if is_redacted(url) {
                    url.clear();
                }
            }
            refused(problem, Some((&comparison, "")), &own)
        }
        Err(problem) => refused(problem, Some((&comparison, &asked.again)), &own),
    }
}

fn page(body: &Markup) -> Page {
    let content = html! { h1 { "Drift" } (body) };
    Page::new("Drift", content).style(&STYLE).script(&SCRIPT)
}

/// Why not, above what was asked for.
fn refused(problem: Problem, asked: Option<(&Comparison, &str)>, own: &str) -> Response {
    let body = html! {
        p.error role="alert" { (problem.detail()) }
        (form(asked, own))
    };
    problem.on_page(page(&body))
}
