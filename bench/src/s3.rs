//! The S3 port: small blobs written and read back, and a large one in and out.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use steadfast_bucket::{AccessKey, BlobKey, BucketName, KeyScope};
use steadfast_core::store::{Clock, SystemClock, Timestamp};
use steadfast_s3::{PresignMethod, presign};

use crate::{
    http::{Caller, serve_s3},
    measure::{now, rate, resident_mib_of, say},
};

/// The peer (Miniflare, without fsync), pairs per second, from our own runs.
const PEER: f64 = 428.0;
const CALLERS: usize = 16;
const PAIRS: usize = 20_000;
const LARGE: u64 = 1 << 30;

pub(crate) fn run() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some((mut child, address, s3)) = serve_s3(folder.path()) else { return };
    let mut caller = Caller::new(&address);
    caller.put("/v1/buckets/bench", "");
    let rule = r#"{"events":["object-create","object-delete"],"queue":"bench-events"}"#;
    caller.put_json("/v1/buckets/bench/rules/all", rule);
    let made: serde_json::Value =
        serde_json::from_str(&caller.post("/v1/keys", "{}")).expect("a key");
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    let key = AccessKey {
        id: text("accessKeyId"),
        secret: text("secretAccessKey").into(),
        scope: KeyScope::default(),
        created_at: Timestamp(0),
    };
    let signer = Signer { s3, key };
    small(&signer);
    large(&signer, &child.id().to_string());
    // A benchmark leaves nothing running.
    let _ = child.kill();
    let _ = child.wait();
}

struct Signer {
    s3: String,
    key: AccessKey,
}

impl Signer {
    /// Path and query for one request.
    fn path(&self, method: PresignMethod, name: &str) -> String {
        let bucket = BucketName::new("bench").expect("a name");
        let blob = BlobKey::new(name).expect("a key");
        let (expires, at) = (Duration::from_hours(1), SystemClock.now());
        let url = format!("http://{}", self.s3);
        let signed = presign(&url, &self.key, method, (&bucket, &blob), expires, at);
        signed.expect("signed").split_off(url.len())
    }
}

fn small(signer: &Signer) {
    say("S3 port, 1 KiB put and get with event, 16 callers");
    let (body, next) = ("x".repeat(1_024), AtomicUsize::new(0));
    let began = now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let mut caller = Caller::new(&signer.s3);
                while let number @ 0..PAIRS = next.fetch_add(1, Ordering::Relaxed) {
                    let name = format!("small/{number}");
                    caller.put(&signer.path(PresignMethod::Put, &name), &body);
                    let found = caller.get(&signer.path(PresignMethod::Get, &name));
                    assert_eq!(found, body);
                }
            });
        }
    });
    let rate = rate(PAIRS, began.elapsed());
    say(&format!(
        "  pairs                              {rate:>9.0}/s {:>6.1} x the peer",
        rate / PEER
    ));
}

/// 1 GiB in and out, and the memory of the server.
fn large(signer: &Signer, process: &str) {
    say("S3 port, 1 GiB in and out");
    let before = resident_mib_of(process);
    let piece = vec![7; 1 << 20];
    let mut stream = TcpStream::connect(&signer.s3).expect("server answers");
    let path = signer.path(PresignMethod::Put, "large");
    let began = now();
    write!(
        stream,
        "PUT {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {LARGE}\r\n\r\n",
        signer.s3
    )
    .expect("sent");
    for _ in 0..LARGE >> 20 {
        stream.write_all(&piece).expect("sent");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let took = began.elapsed().as_secs_f64();
    let grown = resident_mib_of(process) - before;
    say(&format!(
        "  in                                 {:>9.0} MiB/s, grew by {grown:.1} MiB",
        1_024.0 / took
    ));
    let mut stream = TcpStream::connect(&signer.s3).expect("server answers");
    let path = signer.path(PresignMethod::Get, "large");
    let began = now();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", signer.s3)
        .expect("sent");
    let (mut buffer, mut count) = (vec![0; 1 << 20], 0_u64);
    loop {
        match stream.read(&mut buffer).expect("read") {
            0 => break,
            read => count += read as u64,
        }
    }
    assert!(LARGE < count, "{count}");
    let took = began.elapsed().as_secs_f64();
    let grown = resident_mib_of(process) - before;
    say(&format!(
        "  out                                {:>9.0} MiB/s, grew by {grown:.1} MiB",
        1_024.0 / took
    ));
}
