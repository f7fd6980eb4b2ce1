//! Forms that call an object.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use maud::{Markup, html};
use serde_json::Value;
use steadfast_api::objects::CallObject;
use steadfast_core::object::Caller;
use steadfast_store::secret_text;
use steadfast_web::{
    Page, Problem,
    console::{Section, console},
};

use crate::{
    nouns::objects::{
        self as api,
        page::{
            message_form::{body_of, inputs, json_body},
            query::refused,
        },
    },
    pages::{
        components::{code, heading_of, hidden},
        forms::Fields,
        links::object_path,
    },
    server::Server,
};

/// Length of an idempotency key.
const KEY_LEN: usize = 26;

/// Calls an object and shows its reply.
pub(crate) async fn call(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path((class, name)): Path<(String, String)>,
    mut form: Fields,
) -> Result<(StatusCode, Page), Problem> {
    let message = form.required("message")?;
    let idempotency_key = form.text("key");
    let known = server.runtime.objects().public_messages(&class);
    let fields = known.into_iter().find(|it| it.name == message).and_then(|it| it.fields);
    let (body, filled) = match form.text("body") {
        Some(text) => (json_body(&text), BTreeMap::from([(String::new(), text)])),
        None => body_of(&fields.unwrap_or_default(), &mut form),
    };
    form.end()?;
    let called = match body {
        Ok(body) => {
            let (class, name, message) = (class.clone(), name.clone(), message.clone());
            let call = CallObject { class, name, message, body, idempotency_key };
            api::call(server.clone(), caller, call).await
        }
        Err(problem) => Err(problem),
    };
    let path = object_path(&class, &name);
    let (status, reply) = match called {
        Ok(text) => (StatusCode::OK, reply(text.get(), &path)),
        Err(problem) => refused(&problem),
    };
    let content = html! {
        (heading_of(&path, &name, &format!("Call {name}")))
        (reply)
        (calls(&server, &class, &path, &message, &filled))
    };
    Ok((status, console("Call", Section::Objects, content)))
}

fn reply(text: &str, path: &str) -> Markup {
    let value = serde_json::from_str::<Value>(text);
    html! {
        div.notice.good { strong { "Done; the result is durable" } }
        (code(&value.map_or(text.to_owned(), |it| format!("{it:#}")), path))
    }
}

/// A form for each public message of a class. The form of `called` is open, with the texts of its
/// fields.
pub(crate) fn calls(
    server: &Server,
    class: &str,
    path: &str,
    called: &str,
    filled: &BTreeMap<String, String>,
) -> Markup {
    let messages = server.runtime.objects().public_messages(class);
    // With the key, reloading the page does not call again.
    let key = secret_text(KEY_LEN, b"abcdefghijklmnopqrstuvwxyz234567").unwrap_or_default();
    let empty = BTreeMap::new();
    html! {
        @if messages.is_empty() { p.quiet { "Its class has no public message." } }
        div.mend {
            @for it in &messages {
                @let is_called = called == it.name;
                details.act data-key=(it.name) open[is_called] {
                    summary.button { (it.name) "…" }
                    form.ask method="post" action={ (path) "/call" } {
                        (hidden("message", it.name))
                        (hidden("key", format!("{key}-{}", it.name)))
                        (inputs(it, if is_called { filled } else { &empty }))
                        div.line { button.button { "Call " (it.name) } }
                    }
                }
            }
        }
    }
}
