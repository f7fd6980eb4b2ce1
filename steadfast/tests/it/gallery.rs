//! Clients that upload, replace and delete images of a server that is killed, and what they know of
//! them afterwards.
//!
//! The oracle: what was acknowledged is found, and what is found was acknowledged, or nobody knows
//! what became of it. A row is about the very blob in the bucket, and says what its bytes show.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Sender},
    },
};

use rustix::process::Signal;
use serde_json::Value;
use steadfast_store::{Entropy, SeededEntropy};
use tempfile::TempDir;

use crate::{
    classifier::{form, picture},
    harness::Server,
};

const UPLOADS: &str = "/api/organizations/acme/uploads";

/// Clients at once, each with images of its own.
const CLIENTS: u64 = 4;
const NAMES: u64 = 3;

/// A load that nobody kills ends by itself.
const CHANGES_MAX: u64 = 80;

/// The possible images under a name: one of these uploads, or none.
type May = BTreeSet<Option<u64>>;

pub(crate) struct Gallery {
    chance: SeededEntropy,
    clients: Vec<BTreeMap<String, May>>,
    uploads: AtomicU64,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
}

/// The outcome of a request, as its client knows it.
enum Heard {
    Yes,
    NothingThere,
    /// Whether it happened is for the server to say.
    Unknown,
    /// The same, and nobody is there any more.
    Gone,
}

impl Gallery {
    pub(crate) fn new(chance: SeededEntropy) -> Self {
        let name = |client, name| (format!("{client}-{name}.png"), May::from([None]));
        let client = |it| (0..NAMES).map(|number| name(it, number)).collect();
        let clients = (0..CLIENTS).map(client).collect();
        let [uploads, acknowledged, unknown] = [const { AtomicU64::new(0) }; 3];
        Self { chance, clients, uploads, acknowledged, unknown }
    }

    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.chance.next() % limit
    }

    pub(crate) fn summary(&self) -> String {
        let all = [&self.acknowledged, &self.unknown].map(|it| it.load(Ordering::Relaxed));
        format!("{} changes acknowledged, {} unknown", all[0], all[1])
    }

    /// Changes images until the server ends, which is after so many answers unless it comes
    /// earlier. Gives the folder back, or the server that nothing has ended.
    pub(crate) fn change(&mut self, mut server: Server, answers: u64) -> Result<TempDir, Server> {
        let (heard, hears) = mpsc::channel();
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| self.chance.next()).collect();
        let (uploads, asked) = (&self.uploads, &server);
        let is_gone = std::thread::scope(|scope| {
            let clients = self.clients.iter_mut().zip(seeds).map(|(images, seed)| {
                let heard = heard.clone();
                let mut client = Client { images, chance: SeededEntropy::new(seed), uploads };
                scope.spawn(move || client.work(asked, &heard))
            });
            let clients: Vec<_> = clients.collect();
            drop(heard);
            for (number, is_known) in (1..).zip(hears) {
                let count = if is_known { &self.acknowledged } else { &self.unknown };
                count.fetch_add(1, Ordering::Relaxed);
                if number == answers {
                    asked.signal(Signal::KILL);
                }
            }
            clients.into_iter().any(|it| it.join().expect("a client ends"))
        });
        if !is_gone {
            return Err(server);
        }
        assert_eq!(server.wait(), None, "it ended by itself");
        Ok(server.into_folder())
    }

    /// Waits until nothing is left to do; then each row must be what the bucket holds, and that
    /// must be what the clients know.
    pub(crate) fn check(&mut self, server: &Server) {
        for queue in ["upload-events", "upload-events-dlq"] {
            let path = format!("/v1/queues/{queue}");
            let view = server.json_until(&path, |it| it["depth"] == 0);
            assert_eq!(view["dead"], 0, "{view}");
        }
        let under_way = |it: &Value| ["queued", "running"].iter().any(|no| it["status"] == *no);
        let path = format!("{UPLOADS}?limit=1000");
        server.json_until(&path, |it| !items(it).iter().any(under_way));
        server.json_until("/v1/workflows", |it| !is_any_awake(it));
        let rows = server.json(&path);
        let blobs = server.json("/v1/buckets/uploads/objects?prefix=acme/&limit=1000");
        let rows: BTreeMap<&str, &Value> =
            items(&rows).iter().map(|it| (text(it, "name"), it)).collect();
        let blobs: BTreeMap<&str, &Value> =
            items(&blobs).iter().map(|it| (&text(it, "key")["acme/".len()..], it)).collect();
        for (name, may) in self.clients.iter_mut().flatten() {
            let found = match (rows.get(&**name), blobs.get(&**name)) {
                (None, None) => None,
                (Some(row), Some(blob)) => Some(compare(server, row, blob, may)),
                (row, blob) => panic!("{name}: the row is {row:?}, the blob is {blob:?}"),
            };
            assert!(may.contains(&found), "{name} is {found:?} and may be one of {may:?}");
            *may = May::from([found]);
        }
        let known = self.clients.iter().flatten().count();
        assert!(rows.len() <= known && blobs.len() <= known, "found and never asked for: {rows:?}");
    }
}

/// Which upload is found under a name.
fn compare(server: &Server, row: &Value, blob: &Value, may: &May) -> u64 {
    for same in ["version", "sequence", "size"] {
        assert_eq!(row[same], blob[same], "{same} of {row} and {blob}");
    }
    let (bytes, _) = server.bytes(text(row, "imageUrl"));
    let upload = may.iter().flatten().find(|it| image(**it) == bytes);
    let upload = *upload.unwrap_or_else(|| panic!("{row} is none of {may:?}"));
    assert_eq!((&row["status"], &row["error"]), (&"classified".into(), &Value::Null), "{row}");
    assert_eq!(row["classificationLabel"], label(upload), "{row}");
    upload
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().expect("a list")
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().expect("a text")
}

fn is_any_awake(workflows: &Value) -> bool {
    let of_images = |it: &&Value| it["name"] == "image-classification";
    let all = items(workflows).iter().find(of_images).expect("it has the workflow");
    let phases = ["queued", "running", "waiting", "paused"];
    phases.iter().any(|it| all["runs"].get(it).is_some_and(|it| it != 0))
}

/// Each upload has bytes of its own.
fn image(upload: u64) -> Vec<u8> {
    let [high, low] = [upload / 200, upload % 200].map(|it| u8::try_from(it).expect("not so many"));
    let mut colour = [high, low, 250];
    colour.rotate_left((upload % 3) as usize);
    picture(colour)
}

fn label(upload: u64) -> &'static str {
    ["BLUE", "GREEN", "RED"][(upload % 3) as usize]
}

struct Client<'a> {
    images: &'a mut BTreeMap<String, May>,
    chance: SeededEntropy,
    uploads: &'a AtomicU64,
}

impl Client<'_> {
    /// Changes its images until nobody answers. Whether that was so.
    fn work(&mut self, server: &Server, told: &Sender<bool>) -> bool {
        for _ in 0..CHANGES_MAX {
            let at = self.chance.next() % NAMES;
            let (name, may) = self.images.iter_mut().nth(at as usize).expect("a name");
            let (heard, wanted) = if self.chance.next().is_multiple_of(4) {
                (delete(server, name), None)
            } else {
                let upload = self.uploads.fetch_add(1, Ordering::Relaxed);
                (put(server, name, upload), Some(upload))
            };
            match heard {
                Heard::Yes => *may = May::from([wanted]),
                Heard::NothingThere => {
                    assert!(may.contains(&None), "{name} is lost: it may be one of {may:?}");
                    *may = May::from([None]);
                }
                Heard::Unknown | Heard::Gone => _ = may.insert(wanted),
            }
            let is_known = matches!(heard, Heard::Yes | Heard::NothingThere);
            // The counter may have enough answers and be gone: that is ignored.
            let _ = told.send(is_known);
            if matches!(heard, Heard::Gone) {
                return true;
            }
        }
        false
    }
}

/// Every fourth goes straight into the bucket, so that only the event tells of it.
fn put(server: &Server, name: &str, upload: u64) -> Heard {
    let image = image(upload);
    let answer = if upload.is_multiple_of(4) {
        server.try_put_bytes(&format!("/v1/buckets/uploads/objects/acme/{name}"), &image, &[])
    } else {
        let (kind, body) = form(name, &image);
        server.try_post_bytes(UPLOADS, &body, &[("content-type", &kind)])
    };
    match answer {
        Ok(answer) if [200, 202].contains(&answer.status) => Heard::Yes,
        Ok(answer) if answer.status == 503 => Heard::Unknown,
        Ok(answer) => panic!("{name}: {answer:?}"),
        Err(_) => Heard::Gone,
    }
}

fn delete(server: &Server, name: &str) -> Heard {
    match server.try_delete(&format!("{UPLOADS}/{name}")) {
        Ok(answer) if answer.status == 202 => Heard::Yes,
        Ok(answer) if answer.status == 404 => Heard::NothingThere,
        Ok(answer) if answer.status == 503 => Heard::Unknown,
        Ok(answer) => panic!("{name}: {answer:?}"),
        Err(_) => Heard::Gone,
    }
}
