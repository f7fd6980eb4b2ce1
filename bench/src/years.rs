//! `STEADFAST_SOAK=1 steadfast-bench years [COUNT]`: a store with a million objects, messages and
//! runs: from start to ready, and the time of pages, queries and sweeps. Needs the server's binary
//! next to this one.

use std::{
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use steadfast_core::store::{
    Address, Clock, Commit, EntityKind, Json, ManualClock, Message, Retention, RunStatus,
    SettledAs, SqliteOptions, SqliteStore, Store, SystemClock, Turn, Write, queue_address, sweep,
};

use crate::measure::{median, now, resident_mib_of, say};

const DAY: Duration = Duration::from_hours(24);

/// The age of the data in the store, in days.
const AGE: u32 = 41;

const PAGES: [&str; 16] = [
    "/",
    "/objects",
    "/objects/counter",
    "/streams",
    "/streams/pending",
    "/streams/dead",
    "/workflows",
    "/workflows/invoice",
    "/queues",
    "/queues/soak",
    "/processes",
    "/v1/streams?limit=100",
    "/v1/objects",
    "/v1/queues",
    "/v1/doctor",
    "/metrics",
];

pub(crate) async fn run() {
    if std::env::var_os("STEADFAST_SOAK").is_none() {
        return say("Years: skipped, STEADFAST_SOAK is not set");
    }
    let program = std::env::current_exe().expect("our own path").with_file_name("steadfast");
    if !program.exists() {
        return say("Years: skipped, build the server first (cargo build --release)");
    }
    let count = std::env::args().nth(2).map_or(1_000_000, |it| it.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let began = now();
    fill(&data, count).await;
    say(&format!("A store with {count} objects, messages in a queue, and runs"));
    let bytes = std::fs::metadata(data.join("steadfast.db")).map_or(0, |it| it.len());
    say(&format!("  made in {:.0?}, {} MiB", began.elapsed(), bytes >> 20));
    serve(&program, &data);
    forget(&data).await;
}

/// Opens the store with a clock that is this many days behind.
fn open(data: &Path, days_ago: u32) -> (Arc<dyn Store>, ManualClock) {
    let clock = ManualClock::at(SystemClock.now().before(days_ago * DAY));
    let options = SqliteOptions::new(data, Arc::new(clock.clone()));
    (Arc::new(SqliteStore::open(options).expect("store opens")), clock)
}

async fn committed(store: &Arc<dyn Store>, commit: Commit) {
    store.commit(commit).await.expect("store answers").committed().expect("it is accepted");
}

async fn fill(data: &Path, count: usize) {
    let (store, _) = open(data, AGE);
    let queue = queue_address("soak").expect("a name");
    let message = || Message::new("x", Json::empty()).expect("a message");
    let address = |kind, class, number| {
        Address::new(kind, class, &format!("{number:07}")).expect("an address")
    };
    for first in (0..count).step_by(1_000) {
        let (mut objects, mut runs) = (Commit::default(), Commit::default());
        for number in first..first + 1_000 {
            objects = objects.write(Write::Turn(Turn {
                object: address(EntityKind::Object, "counter", number),
                cause: None,
                sent: 0,
                chk: 1,
                input: "x".into(),
                delta: vec![1; 100].into(),
            }));
            let run = address(EntityKind::Run, "invoice", number);
            let messages = vec![message().event()];
            // One in ten may be deleted.
            let (status, expires) = (RunStatus::Complete, if number % 10 == 0 { 30 } else { 300 });
            runs = runs.write(Write::Append { stream: run.clone(), messages }).write(Write::Run {
                run,
                status,
                expires: Some(expires * DAY),
            });
        }
        let messages = (0..1_000).map(|_| message().to(&queue)).collect();
        let messages = Commit::of(Write::Append { stream: queue.clone(), messages });
        let mut dead = store.totals().await.expect("store answers").position;
        committed(&store, messages).await;
        dead += 1;
        let (lease, as_, error) = (None, SettledAs::Dead, None);
        let settle = Write::Settle { position: dead, lease, as_, error };
        committed(&store, objects.write(settle)).await;
        committed(&store, runs).await;
    }
    store.close().await;
}

fn serve(program: &Path, data: &Path) {
    let began = now();
    let (mut server, address) = start(program, data);
    get(&address, "/readyz");
    say(&format!("  from start to ready                {:>9.1?}", began.elapsed()));
    say(&format!("  resident memory then               {:>9.1} MiB", resident(&server)));
    for page in PAGES {
        let times = (0..5).map(|_| get(&address, page));
        say(&format!("  {page:<34} {:>9.1?}", median(times.collect())));
    }
    let alone = median((0..20).map(|_| get(&address, "/v1/objects/counter")).collect());
    let lists = || while_busy(&address);
    say(&format!("  a list of objects alone            {alone:>9.1?}"));
    say(&format!("  the same with eight of streams     {:>9.1?}", lists()));
    server.kill().expect("server is killed");
    server.wait().expect("server ends");
}

/// A query while eight others are in progress.
fn while_busy(address: &str) -> Duration {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| _ = get(address, "/v1/streams?limit=100")));
        }
        median((0..20).map(|_| get(address, "/v1/objects/counter")).collect())
    })
}

fn resident(server: &Child) -> f64 {
    resident_mib_of(&server.id().to_string())
}

fn start(program: &Path, data: &Path) -> (Child, String) {
    let mut server = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--s3-listen", "none", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("server starts");
    let stdout = BufReader::new(server.stdout.take().expect("piped"));
    let mut greeting = stdout.lines().map_while(Result::ok);
    let address = greeting.find_map(|line| {
        line.split_once("http://").map(|(_, rest)| rest.trim_end_matches('/').to_owned())
    });
    (server, address.expect("server says where it is"))
}

fn get(address: &str, path: &str) -> Duration {
    let began = now();
    let mut stream = TcpStream::connect(address).expect("server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout is set");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("request is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answer is read");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer));
    began.elapsed()
}

async fn forget(data: &Path) {
    let (store, clock) = open(data, 0);
    // It was opened recently: deletion by age is suspended for an hour.
    clock.advance(2 * Duration::from_hours(1));
    let sizes = async || store.activity();
    for round in ["the first sweep of messages", "the next, with nothing to forget"] {
        let (began, before) = (now(), sizes().await);
        let forgotten = sweep(&*store, Retention::DEFAULT).await.expect("store answers");
        let after = sizes().await;
        let (reads, steps) = (after.reads - before.reads, after.steps - before.steps);
        let commits = after.commits - before.commits;
        let took = format!("{:.1?}", began.elapsed());
        say(&format!(
            "  {round:<34} {took:>9}, {forgotten} gone, {reads} reads, {steps} steps, {commits} \
             commits"
        ));
    }
    store.close().await;
}
