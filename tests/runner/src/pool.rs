//! Runs tests, a fixed number at a time.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read, Seek},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::{list::Test, say};

/// A test that takes longer hangs. Some build a project while all processors are busy.
const PATIENCE: Duration = Duration::from_mins(10);

/// A test of which one can say something already.
const LONG: Duration = Duration::from_mins(2);

/// How a test ends that needs a database, if there is none.
const NO_DATABASE: &str = "STEADFAST_TEST_POSTGRES is not set";

/// How the line begins that a test prints if this machine lacks something.
const SKIPPED: &str = "skipped: ";

/// A test that has ended.
pub(crate) struct Ran {
    pub(crate) test: Test,
    pub(crate) time: Duration,
    /// Processor time of it and of the processes that it has started and waited for.
    pub(crate) cpu: Duration,
    /// All of it if it failed, otherwise what it skipped.
    pub(crate) output: String,
    /// Why it failed.
    pub(crate) problem: Option<String>,
}

/// Runs all of them, or until one has failed.
pub(crate) fn run(tests: Vec<Test>, jobs: usize, until_failure: bool) -> io::Result<Vec<Ran>> {
    say(&format!("{} tests, {jobs} at a time", tests.len()));
    let (waiting, ran) = (Mutex::new(VecDeque::from(tests)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> io::Result<()> {
        while let Some(test) = next() {
            let it = one(test)?;
            if let Some(problem) = &it.problem {
                say(&format!("FAILED {} {problem}", it.test));
                if until_failure {
                    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            }
            ran.lock().unwrap_or_else(PoisonError::into_inner).push(it);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            it.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the runner panicked")))
        };
        workers.into_iter().try_for_each(join)
    })?;
    Ok(ran.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn one(test: Test) -> io::Result<Ran> {
    let begun = Instant::now();
    let mut output = tempfile::tempfile()?;
    let child = Command::new(&test.program.file)
        .args(["--exact", &test.name, "--nocapture"])
        .current_dir(&test.program.folder)
        .env("CARGO_MANIFEST_DIR", &test.program.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn()?;
    let (mut problem, cpu) = wait(child, &test)?;
    let mut output = text(&mut output)?;
    if test.is_without_database && output.contains(NO_DATABASE) {
        problem = None;
    }
    if problem.is_none() {
        let skipped = output.lines().filter(|it| it.starts_with(SKIPPED));
        output = skipped.collect::<Vec<_>>().join("\n");
    }
    Ok(Ran { test, time: begun.elapsed(), cpu, output, problem })
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the end of a test, and ends it if it hangs. Says what the problem was, and how much
/// processor time it took.
fn wait(mut child: Child, test: &Test) -> io::Result<(Option<String>, Duration)> {
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        // The system forgets the time of a process with the process.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let cpu = cpu(pid).unwrap_or_default();
        // Nobody receives it if the other thread has panicked.
        let _ = sender.send(child.wait().map(|status| (status, cpu)));
    });
    let mut status = ended.recv_timeout(LONG);
    if status.is_err() {
        say(&format!("still running after {} s: {test}", LONG.as_secs()));
        status = ended.recv_timeout(PATIENCE - LONG);
    }
    if let Ok(ended) = status {
        let (status, cpu) = ended?;
        return Ok(((!status.success()).then(|| format!("({status})")), cpu));
    }
    // Processes that it has started end with `./test`.
    kill_process(pid, Signal::KILL)?;
    let _ = ended.recv();
    let problem = format!("(ended, because it hung for {} s)", PATIENCE.as_secs());
    Ok((Some(problem), Duration::ZERO))
}

/// The processor time of a process that has ended, where the system says it.
fn cpu(pid: Pid) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Four fields, in hundredths of a second, after a name that may contain anything.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|it| it.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(10 * ticks))
}
