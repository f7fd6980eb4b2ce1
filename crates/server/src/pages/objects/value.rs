//! Values of rows, for people.

use maud::{Markup, html};
use serde_json::Value;

/// Characters of a text that are shown; the rest is a question away.
const CHARACTERS_MAX: usize = 500;

/// Bytes of a blob that are shown.
const BLOB_BYTES_MAX: usize = 16;

/// Shows a value: what is no text looks different from a text of the same letters.
pub(super) fn shown(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.quiet { "NULL" } },
        Value::String(text) => {
            let shown: String = text.chars().take(CHARACTERS_MAX).collect();
            let rest = text.len() - shown.len();
            html! {
                span.text { (shown) }
                @if 0 < rest { span.quiet { "… and " (rest) " bytes more" } }
            }
        }
        Value::Object(fields) => match fields.get("blob").and_then(Value::as_str) {
            Some(hex) => {
                let shown: String = hex.chars().take(2 * BLOB_BYTES_MAX).collect();
                html! {
                    span.quiet { "blob, " (hex.len() / 2) " bytes " }
                    code { (shown) @if shown.len() < hex.len() { "…" } }
                }
            }
            None => html! {
                // An infinite number, or the bytes of a text that is not UTF-8.
                @for (kind, it) in fields {
                    @if kind == "text" { span.quiet { "not UTF-8 " } }
                    code { (it.as_str().unwrap_or_default()) }
                }
            },
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => html! { span { (value) } },
    }
}
