//! Measures the time of an fsync.

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

/// Bytes per write: a page of the database.
const WRITE_BYTES: usize = 4_096;

/// Number of measured writes.
const WRITES: usize = 20;

/// The median time of a write with fsync, to a separate file.
pub(super) fn median(folder: &Path) -> std::io::Result<Duration> {
    let path = folder.join("steadfast.doctor");
    let measured = measure(&path);
    let removed = std::fs::remove_file(&path);
    let mut times = measured?;
    removed?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real disk is measured in microseconds, which no Clock of ours tells"
)]
fn measure(path: &Path) -> std::io::Result<[Duration; WRITES]> {
    let mut file = File::create(path)?;
    let mut times = [Duration::ZERO; WRITES];
    for (index, time) in times.iter_mut().enumerate() {
        let page = [index as u8; WRITE_BYTES];
        let start = Instant::now();
        file.rewind()?;
        file.write_all(&page)?;
        file.sync_data()?;
        *time = start.elapsed();
    }
    Ok(times)
}
