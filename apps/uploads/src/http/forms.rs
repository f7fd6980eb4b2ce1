//! The page without script: forms that do something and come back to the page.

use axum::{
    Form,
    extract::{Multipart, Path, State, multipart::MultipartRejection},
    http::{HeaderMap, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use steadfast::Object;

use super::{
    api::remove,
    page::refused,
    problem::Problem,
    receive,
    site::{Action, COOKIE, Site},
};
use crate::{OrganizationAgent, RetryUpload};

fn back(organization: &str, done: Result<(), Problem>) -> Response {
    match done {
        Ok(()) => Redirect::to(&format!("/uploads/{organization}")).into_response(),
        Err(problem) => refused(organization, &problem),
    }
}

pub(super) async fn upload(
    State(site): State<Site>,
    Path(organization): Path<String>,
    headers: HeaderMap,
    form: Result<Multipart, MultipartRejection>,
) -> Response {
    let done = async {
        site.admit(&headers, &organization, Action::Write).await?;
        let form = form.map_err(|error| Problem::bad("malformed_form", error.body_text()))?;
        let received = receive::read(&site, form).await?;
        receive::store(&site, &organization, received).await.map(drop)
    };
    back(&organization, done.await)
}

pub(super) async fn delete(
    State(site): State<Site>,
    Path((organization, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let done = async {
        site.admit(&headers, &organization, Action::Write).await?;
        remove(&site, &organization, &name).await
    };
    back(&organization, done.await)
}

pub(super) async fn retry(
    State(site): State<Site>,
    Path((organization, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let done = async {
        site.admit(&headers, &organization, Action::Write).await?;
        let retry = RetryUpload { name };
        site.objects.call(OrganizationAgent::at(&organization), retry).await?;
        Ok(())
    };
    back(&organization, done.await)
}

#[derive(Deserialize)]
pub(super) struct TokenForm {
    token: String,
}

/// Keeps a token for the browser, where no script can read it.
pub(super) async fn token(
    State(site): State<Site>,
    Path(organization): Path<String>,
    Form(form): Form<TokenForm>,
) -> Response {
    let token = form.token.trim();
    if let Err(error) = site.tokens.check(Some(token), &organization).await {
        return refused(&organization, &error.into());
    }
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let token: String = token.chars().filter(|it| fits(*it)).collect();
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    let to = Redirect::to(&format!("/uploads/{organization}"));
    ([(header::SET_COOKIE, cookie)], to).into_response()
}
