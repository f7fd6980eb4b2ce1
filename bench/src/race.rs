//! This server against another binary of it, one after the other in each round, with one program
//! that makes the load: `race --against BINARY [--rounds N]`.

use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    http,
    measure::{now, percentiles, rate, resident_mib_of, say},
};

const CALLERS: usize = 64;
const ROUNDS: usize = 8;
/// Time of each row, after half of it to warm up.
const ROW: Duration = Duration::from_secs(4);

/// Units of processor time in `/proc` per second: the same on every Linux.
const TICKS: f64 = 100.0;

/// Rows with the requests of one caller. More is better in the first ones, less in the others.
const ROWS: [(&str, Work, Shape); 6] = [
    ("three-step runs, a second", Work::Run, Shape::Many),
    ("one hot object, calls a second", Work::Call(1), Shape::Many),
    ("1,000 objects, calls a second", Work::Call(1_000), Shape::Many),
    ("a queue, messages a second", Work::Send, Shape::Many),
    ("one run at a time, p50 in ms", Work::Run, Shape::One),
    ("one call at a time, p50 in ms", Work::Call(1), Shape::One),
];

/// Figures beside the rows. Less is better.
const FIGURES: [&str; 5] = [
    "start to first answer, ms",
    "idle, MiB",
    "under load, MiB",
    "processor time of a call of 1,000 objects, us",
    "processor time of a run, us",
];

#[derive(Clone, Copy)]
enum Work {
    Run,
    Call(usize),
    Send,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Many,
    One,
}

pub(crate) async fn run() {
    let mut args = std::env::args().skip(2);
    let (mut against, mut rounds) = (None, ROUNDS);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--against" => against = args.next().map(PathBuf::from),
            "--rounds" => rounds = args.next().and_then(|it| it.parse().ok()).unwrap_or(ROUNDS),
            _ => {}
        }
    }
    let Some(against) = against.filter(|it| it.is_file()) else {
        say("race: name another server: race --against BINARY [--rounds N]");
        return;
    };
    let ours = std::env::current_exe().expect("own path").with_file_name("steadfast");
    if !ours.exists() {
        say("race: build the server first: cargo build --release");
        return;
    }
    let mut all: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        // The first of a round has the colder machine.
        for side in [round % 2, 1 - round % 2] {
            all[side].push(measure([&ours, &against][side]).await);
        }
        say(&format!("round {} of {rounds}", round + 1));
    }
    let names = ROWS.iter().map(|it| it.0).chain(FIGURES);
    say(&format!("{:<46} {:>9} {:>9} {:>6}  {}", "", "this", "other", "ratio", "in each round"));
    for (row, name) in names.enumerate() {
        let of = |side: usize| all[side].iter().map(|it| it[row]).collect::<Vec<f64>>();
        let (this, other) = (of(0), of(1));
        let mut ratios: Vec<f64> = this.iter().zip(&other).map(|(a, b)| a / b).collect();
        let (this, other) = (median(this), median(other));
        ratios.sort_unstable_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let digits = if this < 100.0 { 2 } else { 0 };
        say(&format!(
            "{name:<46} {this:>9.digits$} {other:>9.digits$} {:>6.2}  {least:.2} to {most:.2}",
            median(ratios)
        ));
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len().is_multiple_of(2) { (all[middle - 1] + all[middle]) / 2.0 } else { all[middle] }
}

/// All rows and figures of one server on an empty folder.
async fn measure(server: &Path) -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let began = now();
    let (child, address) = http::start(server, folder.path());
    let mut child = Ended(child);
    Caller::new(&address).await.ask(&get("/readyz", &address)).await;
    let started = began.elapsed().as_secs_f64() * 1_000.0;
    let process = child.0.id().to_string();
    tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.ok();
    let idle = resident_mib_of(&process);
    let (mut found, mut used, mut most) = (Vec::new(), [0.0; 2], 0.0_f64);
    for (_, work, shape) in ROWS {
        let callers = if shape == Shape::One { 1 } else { CALLERS };
        load(&address, work, callers, ROW / 2).await;
        let before = processor_time(&child.0);
        let (count, times) = load(&address, work, callers, ROW).await;
        let each = (processor_time(&child.0) - before) * 1e6 / count as f64;
        match (work, shape) {
            (Work::Call(1_000), Shape::Many) => used[0] = each,
            (Work::Run, Shape::Many) => used[1] = each,
            _ => {}
        }
        most = most.max(resident_mib_of(&process));
        found.push(match shape {
            Shape::Many => rate(count, ROW),
            Shape::One => percentiles(times).0,
        });
    }
    found.extend([started, idle, most, used[0], used[1]]);
    child.end();
    found
}

/// A server that ends with its measurement.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

/// User and system time of a process, in seconds.
fn processor_time(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |it| it.1).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    ticks / TICKS
}

/// Callers that each send their next request after the answer. Returns the number of answers and
/// the times of one caller.
async fn load(address: &str, work: Work, callers: usize, time: Duration) -> (usize, Vec<Duration>) {
    let count = Arc::new(AtomicUsize::new(0));
    let until = now() + time;
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        let (address, count) = (address.to_owned(), count.clone());
        tasks.spawn(async move {
            let mut caller = Caller::new(&address).await;
            let mut times = Vec::new();
            let mut next = number * 7_919;
            while now() < until {
                next += 1;
                let began = now();
                caller.ask(&request(work, next, &address)).await;
                count.fetch_add(1, Ordering::Relaxed);
                if number == 0 {
                    times.push(began.elapsed());
                }
            }
            times
        });
    }
    let mut times = Vec::new();
    while let Some(of_caller) = tasks.join_next().await {
        times.extend(of_caller.expect("a caller ends"));
    }
    (count.load(Ordering::Relaxed), times)
}

fn get(path: &str, address: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")
}

fn request(work: Work, number: usize, address: &str) -> String {
    let (path, body) = match work {
        Work::Run => (
            "/v1/workflows/invoice/runs?wait=30".to_owned(),
            r#"{"input":{"customer":"Ada","amounts":[1,2,3]}}"#.to_owned(),
        ),
        Work::Call(objects) => (
            format!("/v1/objects/counter/{}/calls/increment", number % objects),
            r#"{"by":1}"#.to_owned(),
        ),
        Work::Send => ("/v1/queues/race/messages".to_owned(), r#"{"body":{"n":1}}"#.to_owned()),
    };
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A connection that stays open.
struct Caller {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Caller {
    async fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("an option");
        Self { stream, buffer: Vec::new() }
    }

    /// Sends a request and reads its answer, which must be a success.
    async fn ask(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).await.expect("it is sent");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("it is answered");
            assert_ne!(read, 0, "the server closed the connection");
            if is_whole(&self.buffer) {
                break;
            }
        }
        let said = || String::from_utf8_lossy(&self.buffer).into_owned();
        assert!(self.buffer.starts_with(b"HTTP/1.1 2"), "{request}\n{}", said());
    }
}

/// Whether a response with a length has arrived.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|it| it.split("\r\n").next());
    let length = length.map_or(0, |it| it.trim().parse::<usize>().expect("a length"));
    end + 4 + length <= bytes.len()
}
