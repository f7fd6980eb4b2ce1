//! Writes to stdout. A reader that has seen enough, such as `head`, is no failure.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints a text.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("stdout cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints the JSON of the API as it came.
pub(super) fn print_json(body: &str) -> Result<(), Failure> {
    print(&format!("{}\n", body.trim_end()))
}
