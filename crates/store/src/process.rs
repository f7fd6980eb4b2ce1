//! The identity of this process, so that another one can check whether it still runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process and its machine, for messages.
pub(crate) fn describe() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("process {} on {host}", std::process::id())
}

/// Identifies one use of a store by one process; it is never reused.
pub(crate) fn identity() -> String {
    static USES: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let start = match look(pid) {
        Look::Runs(since) => since,
        Look::Gone | Look::Hidden => String::new(),
    };
    format!("{}/{pid}/{start}/{}", machine(), USES.fetch_add(1, Ordering::Relaxed))
}

/// Whether the process with this identity has certainly ended: it ran here and does not run any
/// more.
pub(crate) fn is_gone(identity: &str) -> bool {
    runs_here(identity) == Some(false)
}

/// `None` for a process of another machine, or if it cannot be determined.
fn runs_here(identity: &str) -> Option<bool> {
    let mut parts = identity.rsplitn(4, '/');
    let (_, start, pid, there) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let pid = pid.parse::<u32>().ok()?;
    let here = machine();
    (!here.starts_with('/') && here == there).then(|| match look(pid) {
        Look::Runs(since) => since == start,
        Look::Gone => false,
        Look::Hidden => true,
    })
}

/// This boot of this machine and its process namespace; begins with a slash where that is unknown.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), namespace.display())
}

/// The visible state of a process.
enum Look {
    /// It runs since then, in ticks since boot: pids are reused, this pair is not.
    Runs(String),
    /// It does not run.
    Gone,
    /// It runs, and its details are not readable.
    Hidden,
}

fn look(pid: u32) -> Look {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name in parentheses may contain anything; the fields after it are numbered from 3.
        let mut fields = stat.rsplit_once(')').map_or("", |it| it.1).split_whitespace();
        // A zombie has no locks any more.
        return match (fields.next(), fields.nth(18)) {
            (Some("Z") | None, _) | (_, None) => Look::Gone,
            (_, Some(since)) => Look::Runs(since.into()),
        };
    }
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    match pid.map(rustix::process::test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) | None => Look::Gone,
        Some(_) => Look::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_gone_and_an_earlier_one_with_its_pid_is() {
        let identity = identity();
        assert!(!is_gone(&identity));
        if cfg!(target_os = "linux") {
            let Look::Runs(since) = look(std::process::id()) else { panic!("we run") };
            assert!(is_gone(&identity.replace(&format!("/{since}/"), "/1/")));
        }
        assert!(!is_gone("another-machine/pid:[1]/77/123/0"));
        assert!(!is_gone(""));
    }
}
