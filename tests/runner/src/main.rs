//! Runs every test of the workspace in a process of its own, in one pool: a slow test holds up
//! no other, and one that hangs is ended and named.
//!
//! `runner BUILT TIMES [--quick] [--first-failure] [--rounds=N] [NAME...]`: `BUILT` is what `cargo
//! build --message-format json` printed, `TIMES` a file that keeps how long each test took, so that
//! the next time the longest begin first. `--first-failure` begins with the shortest, and ends when
//! a test has failed: it asks whether anyone notices a fault. `--rounds` runs each test that often:
//! it asks whether one fails randomly.

#![expect(clippy::disallowed_methods, reason = "it says how long tests really took")]

mod list;
mod pool;

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use self::{
    list::{Choice, Test},
    pool::Ran,
};

const FIRST_FAILURE: &str = "--first-failure";
const QUICK_ONLY: &str = "--quick";
const ROUNDS: &str = "--rounds=";

/// A quick run leaves out the tests that took more processor time when they last ran: models with
/// thousands of histories, and years of load.
const QUICK: Duration = Duration::from_secs(5);

/// How many of the longest tests are printed.
const SHOWN: usize = 12;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

fn run() -> io::Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let mut path = || arguments.next().map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput);
    let (built, times) = (path()?, path()?);
    let (flags, names): (Vec<_>, Vec<_>) = arguments.partition(|it| it.starts_with('-'));
    let (mut is_quick, mut is_until_failure, mut rounds) = (false, false, 1);
    for flag in &flags {
        let asked = flag.strip_prefix(ROUNDS).and_then(|it| it.parse::<usize>().ok());
        match (flag.as_str(), asked) {
            (QUICK_ONLY, _) => is_quick = true,
            (FIRST_FAILURE, _) => is_until_failure = true,
            (_, Some(asked)) => rounds = asked,
            (_, None) => {
                let unknown = format!("{flag} is unknown; name tests, or parts of names");
                return Err(io::Error::other(unknown));
            }
        }
    }
    let choice = Choice { is_quick, names };
    let mut tests = list::tests(&fs::read_to_string(built)?, &choice)?;
    if tests.is_empty() {
        return Err(io::Error::other("no test has this name"));
    }
    let mut known = read(&fs::read_to_string(&times).unwrap_or_default());
    if choice.is_quick {
        let all = tests.len();
        tests.retain(|it| known.get(&it.to_string()).is_none_or(|it| it.1 <= QUICK));
        let (left_out, seconds) = (all - tests.len(), QUICK.as_secs());
        say(&format!(
            "{left_out} tests that took more than {seconds} s of processors are left out"
        ));
    }
    // A test that is not known may be long.
    let rank = |it: &Test| known.get(&it.to_string()).map_or(Duration::MAX, |it| it.0);
    tests.sort_by_key(|it| (std::cmp::Reverse(rank(it)), it.order));
    if is_until_failure {
        tests.reverse();
    }
    let tests = std::iter::repeat_n(tests, rounds).flatten().collect();
    let begun = Instant::now();
    let ran = pool::run(tests, jobs(), is_until_failure)?;
    known.extend(ran.iter().map(|it| (it.test.to_string(), (it.time, it.cpu))));
    fs::write(&times, written(&known))?;
    report(&ran, begun.elapsed());
    Ok(ran.iter().all(|it| it.problem.is_none()))
}

/// Many tests wait for a disk or a database: twice as many as processors use the time.
fn jobs() -> usize {
    let asked = std::env::var("RUST_TEST_THREADS").ok().and_then(|it| it.parse().ok());
    asked.unwrap_or_else(|| 2 * std::thread::available_parallelism().map_or(1, usize::from))
}

/// How long each test took, and how much processor time.
type Times = HashMap<String, (Duration, Duration)>;

fn read(text: &str) -> Times {
    let millis = |it: &str| it.parse().ok().map(Duration::from_millis);
    let line = |it: &str| {
        let mut parts = it.splitn(3, '\t');
        let times = (millis(parts.next()?)?, millis(parts.next()?)?);
        Some((parts.next()?.to_owned(), times))
    };
    text.lines().filter_map(line).collect()
}

fn written(times: &Times) -> String {
    let row = |(name, (time, cpu)): (&String, &(Duration, Duration))| {
        (time.as_millis(), cpu.as_millis(), name.clone())
    };
    let mut rows: Vec<_> = times.iter().map(row).collect();
    rows.sort_by(|a, b| b.cmp(a));
    rows.iter().map(|(time, cpu, name)| format!("{time}\t{cpu}\t{name}\n")).collect()
}

fn report(ran: &[Ran], took: Duration) {
    let mut text = String::new();
    let mut slow: Vec<_> = ran.iter().collect();
    slow.sort_by_key(|it| std::cmp::Reverse(it.time));
    let _ = writeln!(text, "\nthe longest tests:");
    for it in slow.iter().take(SHOWN) {
        let (time, cpu) = (it.time.as_secs_f64(), it.cpu.as_secs_f64());
        let _ = writeln!(text, "{time:7.1} s, {cpu:6.1} s of processors  {}", it.test);
    }
    for it in ran.iter().filter(|it| it.problem.is_none() && !it.output.is_empty()) {
        let _ = writeln!(text, "{}", it.output);
    }
    let failed: Vec<_> = ran.iter().filter(|it| it.problem.is_some()).collect();
    for it in &failed {
        let problem = it.problem.as_deref().unwrap_or_default();
        let _ = writeln!(text, "\n---- {} {problem}\n{}", it.test, it.output.trim_end());
    }
    if !failed.is_empty() {
        let _ = writeln!(text, "\nfailed:");
        failed.iter().for_each(|it| _ = writeln!(text, "  {}", it.test));
    }
    let sum: Duration = ran.iter().map(|it| it.time).sum();
    let cpu: Duration = ran.iter().map(|it| it.cpu).sum();
    let (passed, failed) = (ran.len() - failed.len(), failed.len());
    let _ = write!(
        text,
        "\n{passed} passed, {failed} failed, in {:.0} s; one after the other {:.0} s, {:.0} s of \
         processors",
        took.as_secs_f64(),
        sum.as_secs_f64(),
        cpu.as_secs_f64()
    );
    say(&text);
}

/// Prints a line. Standard output may be closed: the exit code tells all.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}
