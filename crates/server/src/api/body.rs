//! Bodies of requests that are JSON.

use serde::de::DeserializeOwned;

use super::problem::{Code, Problem};

/// Reads a body. One that is empty says nothing.
pub(crate) fn body_or<T: DeserializeOwned + Default>(
    body: &[u8],
    form: &str,
) -> Result<T, Problem> {
    if body.is_empty() { Ok(T::default()) } else { body_of(body, form) }
}

/// Reads a body that must be there.
pub(crate) fn body_of<'a, T: serde::Deserialize<'a>>(
    body: &'a [u8],
    form: &str,
) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body must be {form}: {error}"))
    })
}
