//! Forms that call an object, generated from the fields of its messages. Without known fields a
//! form is a text box for JSON.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use maud::{Markup, html};
use serde_json::{Map, Value};
use steadfast_api::{Code, JsonText, objects::CallObject};
use steadfast_core::object::{Caller, FieldKind, MessageField, MessageView};
use steadfast_store::secret_text;
use steadfast_web::{
    Page, Problem,
    console::{Section, console},
};

use crate::{
    nouns::objects::{self as api, page::query::refused},
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

/// Parses a JSON body.
pub(crate) fn json_body(text: &str) -> Result<Option<JsonText>, Problem> {
    let parsed = serde_json::from_str(text).map(Some);
    parsed.map_err(|error| Problem::of(Code::BadRequest, format!("the body is not JSON: {error}")))
}

/// Builds the body of a message from the values of its fields.
pub(crate) fn body_of(
    fields: &[MessageField],
    form: &mut Fields,
) -> (Result<Option<JsonText>, Problem>, BTreeMap<String, String>) {
    let (mut body, mut filled, mut wrong) = (Map::new(), BTreeMap::new(), None);
    for field in fields {
        let written = form.exact(&input_name(field));
        filled.extend(written.clone().map(|it| (field.name.to_owned(), it)));
        match field_value(field, written) {
            Ok(Some(value)) => _ = body.insert(field.name.into(), value),
            Ok(None) => {}
            Err(problem) => wrong = wrong.or(Some(problem)),
        }
    }
    let body = match wrong {
        Some(problem) => Err(problem),
        None => json_body(&Value::Object(body).to_string()),
    };
    (body, filled)
}

/// The value of a field; `None` omits it.
fn field_value(field: &MessageField, written: Option<String>) -> Result<Option<Value>, Problem> {
    let Some(text) = written else {
        return Ok(match field.kind {
            FieldKind::Text if !field.optional => Some(Value::String(String::new())),
            FieldKind::Boolean if !field.optional => Some(Value::Bool(false)),
            FieldKind::Text
            | FieldKind::Boolean
            | FieldKind::Integer
            | FieldKind::Number
            | FieldKind::Choice(_)
            | FieldKind::Json => None,
        });
    };
    let wrong = |what: &str| {
        let detail = format!("`{}` must be {what}, not `{text}`", field.name);
        Problem::of(Code::BadRequest, detail)
    };
    let json = || serde_json::from_str::<Value>(&text).ok();
    let value = match field.kind {
        FieldKind::Text | FieldKind::Choice(_) => Value::String(text),
        FieldKind::Boolean => Value::Bool(text != "false"),
        FieldKind::Integer | FieldKind::Number => {
            json().filter(Value::is_number).ok_or_else(|| wrong("a number"))?
        }
        FieldKind::Json => json().ok_or_else(|| wrong("JSON"))?,
    };
    Ok(Some(value))
}

/// A prefix separates fields of a message from those of the form.
fn input_name(field: &MessageField) -> String {
    format!("field.{}", field.name)
}

/// The inputs of a message, with their previous texts.
pub(crate) fn inputs(message: &MessageView, filled: &BTreeMap<String, String>) -> Markup {
    let written = |name: &str| filled.get(name).map_or("", String::as_str);
    let body = format!("{}-body", message.name);
    html! {
        @match &message.fields {
            None => {
                label for=(body) { "Body as JSON" }
                textarea id=(body) name="body" rows="3" spellcheck="false" placeholder="{}" {
                    (written(""))
                }
            }
            Some(fields) => {
                @if fields.is_empty() { p.quiet { "This message has no fields." } }
                @for it in fields {
                    (input(&format!("{}-{}", message.name, it.name), it, written(it.name)))
                }
            }
        }
    }
}

fn input(id: &str, field: &MessageField, written: &str) -> Markup {
    let name = input_name(field);
    let options: &[&str] = match &field.kind {
        FieldKind::Choice(names) => names,
        FieldKind::Boolean => &["false", "true"],
        FieldKind::Text | FieldKind::Integer | FieldKind::Number | FieldKind::Json => &[],
    };
    html! {
        label for=(id) {
            (field.name) " " span.quiet { (kind_of(field)) }
        }
        @match field.kind {
            FieldKind::Choice(_) | FieldKind::Boolean => {
                select id=(id) name=(name) {
                    @if field.optional { option value="" { "–" } }
                    @for it in options { option value=(it) selected[*it == written] { (it) } }
                }
            }
            FieldKind::Integer => {
                input id=(id) name=(name) value=(written) type="number" step="1"
                    required[!field.optional];
            }
            FieldKind::Number => {
                input id=(id) name=(name) value=(written) type="number" step="any"
                    required[!field.optional];
            }
            FieldKind::Text => input id=(id) name=(name) value=(written) autocomplete="off";,
            FieldKind::Json => {
                textarea id=(id) name=(name) rows="2" spellcheck="false" { (written) }
            }
        }
    }
}

fn kind_of(field: &MessageField) -> String {
    let kind = match field.kind {
        FieldKind::Text => "text",
        FieldKind::Integer => "whole number",
        FieldKind::Number => "number",
        FieldKind::Boolean => "true or false",
        FieldKind::Choice(_) => "one of these",
        FieldKind::Json => "JSON",
    };
    if field.optional { format!("{kind}, may be left out") } else { kind.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_field_is_omitted_unless_empty_is_a_value() {
        let field = |kind, optional| MessageField { name: "f", optional, kind };
        let value = |kind, optional, written: Option<&str>| {
            field_value(&field(kind, optional), written.map(str::to_owned)).ok().flatten()
        };
        assert_eq!(value(FieldKind::Text, false, None), Some(Value::from("")));
        assert_eq!(value(FieldKind::Text, true, None), None);
        assert_eq!(value(FieldKind::Boolean, false, Some("false")), Some(Value::from(false)));
        assert_eq!(value(FieldKind::Boolean, true, None), None);
        assert_eq!(value(FieldKind::Integer, false, Some("7")), Some(Value::from(7)));
        let wrong = field_value(&field(FieldKind::Number, false), Some("\"7\"".into()));
        assert!(wrong.is_err(), "a text is no number");
        assert_eq!(value(FieldKind::Json, false, Some("[1]")), Some(serde_json::json!([1])));
        let wrong = field_value(&field(FieldKind::Json, false), Some("[".into()));
        assert!(wrong.is_err_and(|it| it.code() == "bad_request"));
    }
}
