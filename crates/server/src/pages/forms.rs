//! Forms: parses their fields into the requests of the API.

use std::{collections::BTreeMap, fmt, str::FromStr};

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;
use steadfast_api::{Code, JsonText, Operation};
use steadfast_web::Problem;

use crate::path::matched_values;

const FORM: &str = "application/x-www-form-urlencoded";

/// The fields of a form. An empty field counts as left out.
///
/// [`Fields::end`] refuses fields that were not taken: a misspelt filter must not change
/// everything.
#[derive(Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

/// The names only: a value may be a token.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Fields {
    fn of(headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        // A button without fields sends no body.
        if !body.is_empty() && !kind.is_some_and(|it| it.starts_with(FORM)) {
            return Err(bad(format!("the body must be a form of type {FORM}")));
        }
        let pairs: Vec<(String, String)> = serde_urlencoded::from_bytes(body)
            .map_err(|error| bad(format!("the form cannot be read: {error}")))?;
        Ok(Self(pairs.into_iter().filter(|it| !it.1.trim().is_empty()).collect()))
    }

    /// Takes a field.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).map(|it| it.trim().to_owned())
    }

    /// Takes a field without trimming it.
    pub(crate) fn exact(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a required field.
    pub(crate) fn required(&mut self, name: &str) -> Result<String, Problem> {
        self.text(name).ok_or_else(|| bad(format!("the field `{name}` is missing")))
    }

    /// Takes a field and parses it.
    pub(crate) fn parsed<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let parse = |text: String| {
            text.parse().map_err(|_| bad(format!("`{text}` is not a valid value of `{name}`")))
        };
        self.text(name).map(parse).transpose()
    }

    /// Takes a field with JSON.
    pub(crate) fn json(&mut self, name: &str) -> Result<Option<JsonText>, Problem> {
        let parse = |text: String| {
            let parsed = serde_json::from_str(&text);
            parsed.map_err(|error| bad(format!("the field `{name}` is not JSON: {error}")))
        };
        self.text(name).map(parse).transpose()
    }

    /// Parses all fields into one type.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        let text = serde_urlencoded::to_string(&self.0).unwrap_or_default();
        serde_urlencoded::from_str(&text).map_err(|error| bad(error.to_string()))
    }

    /// Checks that no field is left.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            Some(name) => Err(bad(format!("the form has no field `{name}`"))),
            None => Ok(()),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::of(Code::TooLarge, "the form is too large"),
            _ => bad(error.body_text()),
        })?;
        Self::of(&headers, &body)
    }
}

/// Parses a form with the fields of an operation.
pub(crate) async fn operation_of<O>(request: Request) -> Result<O, Problem>
where
    O: Operation + DeserializeOwned,
{
    let (values, fields) = parts_of(request).await?;
    let mut operation: O = fields.read()?;
    operation.set_path_values(values).map_err(bad)?;
    Ok(operation)
}

/// The values of the path, and the fields of a form.
async fn parts_of(request: Request) -> Result<(Vec<String>, Fields), Problem> {
    let (parts, body) = request.into_parts();
    let values = matched_values(&parts)?;
    Ok((values, Fields::from_request(Request::from_parts(parts, body), &()).await?))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::of(Code::BadRequest, detail.into())
}

#[cfg(test)]
mod tests {
    use steadfast_api::runs::RestartRun;

    use super::*;

    fn fields(body: &str) -> Result<Fields, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(FORM));
        Fields::of(&headers, body.as_bytes())
    }

    #[test]
    fn a_field_is_taken_once_and_an_empty_one_is_missing() {
        let mut form = fields("to=+a+&rate=2.5&error=&body=%7B%7D").unwrap();
        assert_eq!((form.text("to").as_deref(), form.text("to")), (Some("a"), None));
        assert_eq!(form.parsed::<f64>("rate").unwrap(), Some(2.5));
        assert!(form.text("error").is_none() && form.required("error").is_err());
        assert_eq!(form.json("body").unwrap().unwrap().get(), "{}");
        assert!(form.end().is_ok());
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", fields("token=hush&next=/").unwrap()), "{\"next\", \"token\"}");
    }

    #[test]
    fn invalid_forms_are_refused() {
        assert!(fields("rate=fast").unwrap().parsed::<f64>("rate").is_err());
        assert!(fields("body=%7B").unwrap().json("body").is_err());
        assert!(fields("eror=x").unwrap().end().is_err(), "a misspelt filter");
        assert!(fields("eror=x").unwrap().read::<RestartRun>().is_err(), "a misspelt filter");
        assert_eq!(fields("from=pay").unwrap().read::<RestartRun>().unwrap().from.unwrap(), "pay");
        assert!(Fields::of(&HeaderMap::new(), b"a=b").is_err(), "not a form");
        assert!(Fields::of(&HeaderMap::new(), b"").is_ok(), "a button");
    }
}
