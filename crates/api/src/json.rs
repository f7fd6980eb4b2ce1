//! JSON on a command line.

use steadfast_core::JsonText;

/// Parses JSON, or `@FILE` with JSON.
pub(crate) fn json_text(text: &str) -> Result<JsonText, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| format!("{file} cannot be read: {error}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}"))
}

/// Parses a value on a command line.
pub(crate) fn json_value(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}
