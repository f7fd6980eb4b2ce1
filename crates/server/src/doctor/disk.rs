//! Checks the disk of a data folder: free space, speed, and the write-ahead log.

use std::{
    fs::File,
    io::{Seek, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use steadfast_api::server::Check;

use crate::{listener, process::file_limit};

/// Below this, the next commits may find the disk full.
const FREE_BYTES_LOW: u64 = 256 << 20;

/// Below this, an operator should act.
const FREE_BYTES_SCARCE: u64 = 2 << 30;

/// The writer keeps the log near 64 MiB; twice that means that it cannot be checkpointed.
const WAL_BYTES_HIGH: u64 = 128 << 20;

/// Above this, every caller notices: a commit waits for at least one fsync.
const FSYNC_MICROSECONDS_SLOW: u128 = 20_000;

const MIB: u64 = 1 << 20;

/// Says when the process may open so few files that it serves fewer connections than it could;
/// `None` if it may open enough.
pub(super) fn open_files() -> Option<Check> {
    let (places, limit) = (listener::places(), file_limit());
    (places < listener::CONNECTIONS_MAX).then(|| {
        let detail = format!(
            "the process may open {limit} files, so a port has {places} places instead of {}; \
             raise the limit (`ulimit -n`, `LimitNOFILE`)",
            listener::CONNECTIONS_MAX
        );
        Check::warning("open files", detail)
    })
}

/// Checks the data folder on a blocking thread. Measuring the speed writes a file.
pub(super) async fn checks(folder: PathBuf, may_write: bool) -> Vec<Check> {
    let made = move || {
        let mut made = vec![free_space(&folder), log(&folder)];
        made.extend(may_write.then(|| speed(&folder)));
        made
    };
    let made = tokio::task::spawn_blocking(made).await;
    made.unwrap_or_else(|error| vec![Check::failed("disk", error.to_string())])
}

fn free_space(folder: &Path) -> Check {
    let found = match rustix::fs::statvfs(folder) {
        Ok(found) => found,
        Err(error) => return Check::failed("disk space", error.to_string()),
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let all = found.f_blocks.saturating_mul(found.f_frsize);
    let detail = format!("{} MiB of {} MiB free", free / MIB, all / MIB);
    match free {
        _ if free < FREE_BYTES_LOW => {
            Check::failed("disk space", format!("{detail}; free space before commits are refused"))
        }
        _ if free < FREE_BYTES_SCARCE => Check::warning("disk space", detail),
        _ => Check::ok("disk space", detail),
    }
}

fn log(folder: &Path) -> Check {
    let bytes = std::fs::metadata(folder.join("steadfast.db-wal")).map_or(0, |it| it.len());
    let detail = format!("write-ahead log has {:.1} MiB", bytes as f64 / MIB as f64);
    if WAL_BYTES_HIGH < bytes {
        let detail = format!("{detail}; a reader prevents its checkpoint");
        return Check::warning("wal", detail);
    }
    Check::ok("wal", detail)
}

fn speed(folder: &Path) -> Check {
    let median = match fsync_median(folder) {
        Ok(median) => median,
        Err(error) => return Check::failed("fsync", error.to_string()),
    };
    let microseconds = median.as_micros();
    let detail = format!("median {:.2} ms", microseconds as f64 / 1_000.0);
    if FSYNC_MICROSECONDS_SLOW < microseconds {
        return Check::warning("fsync", format!("{detail}; every commit waits that long"));
    }
    Check::ok("fsync", detail)
}

/// Bytes per write: a page of the database.
const WRITE_BYTES: usize = 4_096;

/// Number of measured writes.
const WRITES: usize = 20;

/// The median time of a write with fsync, to a separate file.
pub(super) fn fsync_median(folder: &Path) -> std::io::Result<Duration> {
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
