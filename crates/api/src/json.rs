//! JSON text, unchanged.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steadfast_store::{InvalidInput, Json};
use utoipa::ToSchema;

/// JSON text. It is stored and sent unchanged: numbers keep their digits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = serde_json::Value)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// JSON text of any depth.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The value for the store.
    pub fn stored(&self) -> Result<Json, InvalidInput> {
        Json::raw(&self.0)
    }
}

impl From<&Json> for JsonText {
    fn from(json: &Json) -> Self {
        let text = json.as_str();
        let raw = RawValue::from_string(text.to_owned());
        Self(raw.or_else(|_| serde_json::value::to_raw_value(text)).unwrap_or_default())
    }
}

/// On a command line: JSON, or `@FILE` with JSON.
impl FromStr for JsonText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("{file} cannot be read: {error}"))?,
            None => text.to_owned(),
        };
        serde_json::from_str(&text).map(Self).map_err(|error| format!("not JSON: {error}"))
    }
}

/// Parses a value on a command line.
pub(crate) fn json_value(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}
