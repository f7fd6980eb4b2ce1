//! Writes to stdout. A reader that has seen enough, such as `head`, is no failure.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints a text.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    tell(text).map(|_| ())
}

/// Prints a text; `false` if nobody reads it any more.
pub(super) fn tell(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("stdout cannot be written: {error}")))
        }
        Ok(()) => Ok(true),
        Err(_) => Ok(false),
    }
}

/// Prints the JSON of the API as it came.
pub(super) fn print_json(body: &str) -> Result<(), Failure> {
    print(&format!("{}\n", body.trim_end()))
}
