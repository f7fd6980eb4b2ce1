//! Asking the npm client for a package.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use super::pull_error::PullError;

/// A client that is not done by then hangs: 95 MB at 1 Mbit/s take 13 minutes.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often it is asked whether it is done.
const PAUSE: Duration = Duration::from_millis(100);

/// Codes of the client when it does not reach the registry.
const NETWORK: [&str; 9] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ERR_SOCKET_TIMEOUT",
    "ENOTCACHED",
];

/// The variables that the client needs, in lower case. Secrets of the server are not among them.
const PASSED: [&str; 14] = [
    "path",
    "home",
    "tmpdir",
    "lang",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ssl_cert_file",
    "ssl_cert_dir",
    "node_extra_ca_certs",
    "xdg_cache_home",
    "xdg_config_home",
    "xdg_data_home",
];

/// Whether the client gets a variable: what it needs to run, and its own settings.
fn is_passed(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    PASSED.contains(&&*name) || name.starts_with("npm_config_")
}

/// Has the client put a packed package into an empty folder. Returns its file.
pub(super) fn pack(npm: &OsStr, spec: &'static str, folder: &Path) -> Result<PathBuf, PullError> {
    let failed = |error: io::Error| PullError::Npm { spec, reason: error.to_string() };
    let started = Command::new(npm)
        .args(["pack", spec, "--loglevel=error", "--no-update-notifier"])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_passed(name)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PullError::NpmMissing { spec });
        }
        started => started.map_err(failed)?,
    };
    let (said, status) = wait(&mut child).map_err(failed)?;
    if !status.success() {
        return Err(failure(spec, &said));
    }
    let mut entries = std::fs::read_dir(folder).map_err(failed)?;
    let is_packed = |path: &PathBuf| path.extension().is_some_and(|it| it == "tgz");
    let found = entries.find_map(|it| it.ok().map(|it| it.path()).filter(is_packed));
    found.ok_or_else(|| PullError::Npm { spec, reason: "it left no file".into() })
}

/// Waits for the end of a process, and keeps what it says meanwhile.
fn wait(child: &mut Child) -> io::Result<(String, ExitStatus)> {
    let mut errors = child.stderr.take();
    let (sender, said) = channel();
    thread::Builder::new().name("npm-errors".into()).spawn(move || {
        let mut text = Vec::new();
        if let Some(errors) = &mut errors {
            // A partial text is enough; it is for people only.
            let _ = errors.take(64 << 10).read_to_end(&mut text);
        }
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    })?;
    // The pipe closes when the process ends. One that closes it early is waited for just as long.
    let mut waited = Duration::ZERO;
    let mut text = None;
    loop {
        if let Some(status) = child.try_wait()? {
            let text = text.or_else(|| said.recv_timeout(Duration::from_secs(1)).ok());
            return Ok((text.unwrap_or_default(), status));
        }
        if LIMIT < waited {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("it did not come to an end in half an hour"));
        }
        match said.recv_timeout(PAUSE) {
            Ok(it) => text = Some(it),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::park_timeout(PAUSE),
        }
        waited += PAUSE;
    }
}

/// The message for what the client said.
fn failure(spec: &'static str, said: &str) -> PullError {
    let lines = said.lines().filter(|it| !it.contains("A complete log of this run"));
    let line = |it: &str| {
        let rest = it.trim_start_matches("npm").trim_start();
        let rest = rest.strip_prefix("error").or(rest.strip_prefix("ERR!")).unwrap_or(rest);
        rest.trim().to_owned()
    };
    let reason: Vec<String> = lines.map(line).filter(|it| !it.is_empty()).take(3).collect();
    let reason = if reason.is_empty() { "it says nothing".into() } else { reason.join(", ") };
    if NETWORK.iter().any(|it| said.contains(it)) {
        PullError::NoNetwork { spec, reason }
    } else {
        PullError::Npm { spec, reason }
    }
}
