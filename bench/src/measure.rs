//! Measurement and output.

use std::{
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

/// Prints a line.
pub(crate) fn say(line: &str) {
    // A reader that closes the pipe has read enough.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The time now; a benchmark measures the wall clock.
#[expect(clippy::disallowed_methods, reason = "this is where time is measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Events per second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The median of some durations.
pub(crate) fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// The median and the 99th percentile of some durations, in milliseconds.
pub(crate) fn percentiles(mut all: Vec<Duration>) -> (f64, f64) {
    all.sort_unstable();
    (percentile(&all, 50), percentile(&all, 99))
}

/// A percentile of sorted durations, in milliseconds.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[sorted.len() * percent / 100].as_secs_f64() * 1_000.0
}

/// The time to make 4 KiB durable in a folder, one after the other.
pub(crate) fn fsync(folder: &Path) -> Duration {
    let file = File::create(folder.join("fsync")).expect("file is made");
    let times = (0..200).map(|number| {
        let began = now();
        file.write_all_at(&[7; 4096], number % 8 * 4096).expect("file is written");
        file.sync_data().expect("file is flushed");
        began.elapsed()
    });
    median(times.collect())
}

/// Resident memory of this process in MiB.
pub(crate) fn resident_mib() -> f64 {
    resident_mib_of("self")
}

/// Resident memory of a process in MiB; 0 if it is not available.
pub(crate) fn resident_mib_of(process: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}

/// The machine.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|it| it.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {name}")
}
