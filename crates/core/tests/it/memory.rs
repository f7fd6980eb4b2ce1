//! Objects, queues and runs that sleep take next to no memory. Memory belongs to a process, so each
//! of these tests has one of its own.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod objects;
mod queues;
mod runs;

/// Set in the process of one test.
const ALONE: &str = "STEADFAST_TEST_ALONE";

/// Whether this process has this test only. If not, such a process runs it now.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = own.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(printed.contains("1 passed"), "{test} is not the name of a test: {printed}");
    false
}

/// A line of what Linux says about this process, in MiB.
fn mib(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}
