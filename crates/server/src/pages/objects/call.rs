//! The form that calls an object.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    http::StatusCode,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{JsonText, objects::CallObject};
use steadfast_store::secret_text;
use steadfast_web::{
    Page,
    console::{Section, console},
};
use utoipa::ToSchema;

use super::path_of;
use crate::{
    api::{
        objects as api,
        problem::{Code, Problem},
    },
    server::Server,
};

/// Bytes of a reply on the page.
const REPLY_BYTES: usize = 256 << 10;

/// Letters of an idempotency key.
const KEY_LEN: usize = 26;

/// The form of a call.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct CallForm {
    /// The message.
    message: String,
    /// JSON, or nothing for a message without fields.
    #[serde(default)]
    body: String,
    /// The idempotency key: a page that is loaded again does not call again.
    #[serde(default)]
    key: String,
}

/// Calls an object, and shows its reply.
#[utoipa::path(post, path = "/objects/{class}/{name}/call", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    request_body(content = CallForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, body = String, content_type = "text/html"),
        (status = 422, body = String, content_type = "text/html",
            description = "The object refuses; the page says why"),
    ),
)]
pub(in super::super) async fn call(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    form: Result<Form<CallForm>, FormRejection>,
) -> Result<(StatusCode, Page), Problem> {
    let Form(form) = form.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    let called = match body(&form.body) {
        Ok(body) => {
            let (class, name, message) = (class.clone(), name.clone(), form.message.clone());
            let idempotency_key = Some(form.key.clone()).filter(|it| !it.is_empty());
            let call = CallObject { class, name, message, body, idempotency_key };
            api::call(server.clone(), call).await
        }
        Err(problem) => Err(problem),
    };
    let (status, reply) = match called {
        Ok(text) => (StatusCode::OK, reply(text.get())),
        Err(problem) => {
            let body = problem.body("", "");
            let status = StatusCode::from_u16(body.status);
            let shown = html! {
                div.notice.bad { strong { (body.title) } p { (body.detail) } }
            };
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), shown)
        }
    };
    let path = path_of(&class, &name);
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } }
        h1 { "Call " span.address { (name) } }
        (call_form(&server, &class, &path, &form.message, &form.body))
        (reply)
    };
    Ok((status, console("Call", Section::Objects, content)))
}

fn body(text: &str) -> Result<Option<JsonText>, Problem> {
    match text.trim() {
        "" => Ok(None),
        text => serde_json::from_str(text).map(Some).map_err(|error| {
            Problem::of(Code::BadRequest, format!("the body is not JSON: {error}"))
        }),
    }
}

fn reply(text: &str) -> Markup {
    let text = Some(text).filter(|it| it.len() <= REPLY_BYTES);
    let value = text.and_then(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    html! {
        div.notice.good { strong { "Done; the reply is durable" } }
        @match value {
            Some(value) => pre { code { (format!("{value:#}")) } },
            None => p.quiet { "The reply is too large to be shown." },
        }
    }
}

/// The public messages of a class, and a body as JSON.
pub(super) fn call_form(
    server: &Server,
    class: &str,
    path: &str,
    message: &str,
    body: &str,
) -> Markup {
    let messages = server.runtime.objects().public_messages(class);
    let key = secret_text(KEY_LEN, b"abcdefghijklmnopqrstuvwxyz234567").unwrap_or_default();
    html! {
        @if messages.is_empty() {
            p.quiet { "Its class has no public message." }
        } @else {
            form.ask method="post" action={ (path) "/call" } {
                input type="hidden" name="key" value=(key);
                div.line {
                    label for="message" { "Message" }
                    select #message name="message" {
                        @for it in &messages {
                            option value=(it) selected[*it == message] { (it) }
                        }
                    }
                }
                label for="body" { "Body as JSON; leave it empty for a message without fields" }
                textarea #body name="body" rows="3" spellcheck="false" placeholder="{}" { (body) }
                div.line { button.button { "Call" } }
            }
        }
    }
}
