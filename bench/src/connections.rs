//! Live connections: the memory of an idle one, and the time of a broadcast to all of them,
//! compared to a bare server that writes the same bytes to as many sockets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::store::{Clock, SystemClock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
};

use crate::{
    http::start,
    measure::{median, now, resident_mib_of, say},
};

const CONNECTIONS: usize = 5_000;
const ROUNDS: usize = 9;

/// Counts the connections that have received the line of this round.
#[derive(Default)]
struct Heard {
    count: AtomicUsize,
    all: Notify,
}

impl Heard {
    fn one(&self) {
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == CONNECTIONS {
            self.all.notify_one();
        }
    }

    /// Sends a line and measures the time until all have received it.
    async fn time(&self, tells: impl AsyncFn(usize)) -> Duration {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            self.count.store(0, Ordering::SeqCst);
            let began = now();
            tells(round).await;
            self.all.notified().await;
            times.push(began.elapsed());
        }
        median(times)
    }
}

pub(crate) async fn run() {
    let server = std::env::current_exe().expect("own path").with_file_name("steadfast");
    if !server.exists() {
        return say("Connections: skipped, build the server first: cargo build --release");
    }
    allow_many_files();
    let folder = tempfile::tempdir().expect("temporary folder");
    let (mut child, address) = start(&server, folder.path());
    say(&format!("{CONNECTIONS} live connections of one object"));
    let resident = || resident_mib_of(&child.id().to_string());
    line(&address, "warm").await;
    let before = resident();
    let began = now();
    let sockets = connect(&address, websocket_head(&address)).await;
    let took = began.elapsed();
    // There are no readers yet, and no load.
    SystemClock.sleep(Duration::from_secs(2)).await;
    let each = (resident() - before) * 1_024.0 / CONNECTIONS as f64;
    say(&format!(
        "  accepted, each in a turn           {:>9.0}/s",
        crate::measure::rate(CONNECTIONS, took)
    ));
    say(&format!("  resident for an idle one           {each:>9.1} KiB"));
    let heard = Arc::new(Heard::default());
    listen(sockets, &heard);
    let ours = heard.time(async |round| line(&address, &format!("round {round}")).await).await;
    let bare = bare().await;
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    say(&format!("  one line to all, durable           {ours:>9.1?} median"));
    say(&format!("  the same bytes, bare sockets       {bare:>9.1?} median; ours {ratio:.2} x"));
    let _ = child.kill();
    let _ = child.wait();
}

/// The same with a bare server.
async fn bare() -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let address = listener.local_addr().expect("address").to_string();
    let accepts = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while accepted.len() < CONNECTIONS {
            let (mut stream, _) = listener.accept().await.expect("connection");
            stream.set_nodelay(true).expect("option");
            stream.write_all(b"hello\r\n\r\n").await.expect("write");
            accepted.push(Arc::new(tokio::sync::Mutex::new(stream)));
        }
        accepted
    });
    let sockets = connect(&address, String::new()).await;
    let accepted = accepts.await.expect("accepts");
    let heard = Arc::new(Heard::default());
    listen(sockets, &heard);
    heard
        .time(async |_| {
            for stream in &accepted {
                let stream = stream.clone();
                tokio::spawn(async move {
                    let line = [&b"\"kind\":\"line\""[..], &[b'x'; 90]].concat();
                    stream.lock().await.write_all(&line).await.expect("write");
                });
            }
        })
        .await
}

/// Sends a line to the room.
async fn line(address: &str, text: &str) {
    let body = format!(r#"{{"key":"{text}","who":"bench","text":"{text}"}}"#);
    let request = format!(
        "POST /v1/objects/chat/bench/calls/say HTTP/1.1\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("server answers");
    stream.write_all(request.as_bytes()).await.expect("request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn websocket_head(address: &str) -> String {
    format!(
        "GET /v1/objects/chat/bench/connect?name=b&after=1 HTTP/1.1\r\nhost: {address}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// Opens the connections, some at a time, each with its request head.
async fn connect(address: &str, head: String) -> Vec<TcpStream> {
    let (places, head) = (Arc::new(Semaphore::new(200)), Arc::new(head));
    let tasks = (0..CONNECTIONS).map(|_| {
        let (places, head, address) = (places.clone(), head.clone(), address.to_owned());
        tokio::spawn(async move {
            let _place = places.acquire().await.expect("open");
            let mut stream = TcpStream::connect(&address).await.expect("server answers");
            stream.write_all(head.as_bytes()).await.expect("head is sent");
            // Byte by byte, so that nothing after the head is read.
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(stream.read_u8().await.expect("answer"));
            }
            stream
        })
    });
    let mut sockets = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        sockets.push(task.await.expect("connected"));
    }
    sockets
}

/// Reads on all of them and counts the lines.
fn listen(sockets: Vec<TcpStream>, heard: &Arc<Heard>) {
    for mut socket in sockets {
        let heard = heard.clone();
        tokio::spawn(async move {
            let mut bytes = vec![0; 16 << 10];
            while let Ok(read @ 1..) = socket.read(&mut bytes).await {
                let lines = bytes[..read].windows(13).filter(|it| it == b"\"kind\":\"line\"");
                lines.for_each(|_| heard.one());
            }
        });
    }
}

fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it is not allowed, connecting fails.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
