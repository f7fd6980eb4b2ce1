//! Writes to stdout.

use crate::failure::Failure;

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map(|_| ())
}

/// Prints a text. Returns `false` if the reader has closed the pipe.
pub(crate) fn try_print(text: &str) -> Result<bool, Failure> {
    Ok(steadfast_web::print(text)?)
}

/// Prints the JSON of the API unchanged.
pub(crate) fn print_json(body: &str) -> Result<(), Failure> {
    print(&format!("{}\n", body.trim_end()))
}
