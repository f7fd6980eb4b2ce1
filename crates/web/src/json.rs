//! JSON in requests and responses.

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Code, Problem};

/// A response in JSON. `axum::Json` does the same with a serializer of its own, for which the
/// compiler compiles all types of a response once more.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        respond(serde_json::to_vec(&self.0))
    }
}

fn respond(json: serde_json::Result<Vec<u8>>) -> Response {
    match json {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => Problem::of(Code::Internal, error.to_string()).into_response(),
    }
}

/// Reads the JSON body of a request. The error says that the body must be `form`.
pub fn read_body<T: DeserializeOwned>(body: &[u8], code: &str, form: &str) -> Result<T, Problem> {
    let invalid = |error: &dyn std::fmt::Display| {
        Problem::invalid(code, format!("the body must be {form}: {error}"))
    };
    let body = std::str::from_utf8(body).map_err(|error| invalid(&error))?;
    serde_json::from_str(body).map_err(|error| invalid(&error))
}

/// JSON for people: in several lines, with its fields in the order of the alphabet.
pub fn pretty_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
    format!("{value:#}")
}
