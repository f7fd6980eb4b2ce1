//! A server that ends at every point on the way of a generation: nothing is paid for twice, no
//! artifact is lost that somebody has seen, and none is there twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use steadfast_bucket::BUCKET_CRASH_POINTS;
use steadfast_core::CRASH_POINTS;
use steadfast_fake_runware::FakeRunware;
use steadfast_generations::GENERATION_CRASH_POINTS;
use steadfast_store::crash::COMMIT_POINTS;
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    generations_runware::{flags, free_host},
    harness::{Server, steadfast},
};

/// Ends until what came of them is looked at.
const IN_A_ROW: usize = 4;
/// Requests until we do not believe in a point any more.
const ASKED_MAX: usize = 12;

/// The points on the way of a generation. Copies, uploads in parts and lifecycles have others.
fn points() -> Vec<&'static str> {
    let of_blobs = BUCKET_CRASH_POINTS.iter().filter(|it| it.starts_with("blob."));
    let of_blobs = of_blobs.copied().filter(|it| *it != "blob.linked");
    let own = GENERATION_CRASH_POINTS.iter().copied();
    own.chain(of_blobs).chain(CRASH_POINTS.iter().chain(COMMIT_POINTS).copied()).collect()
}

/// A provider and a client that repeats requests without an answer, with the records of both.
struct Workload<'a> {
    fake: FakeRunware,
    host: String,
    cluster: Option<&'a Cluster>,
    /// The generation that each request got, if it was answered.
    asked: BTreeMap<String, Option<String>>,
    /// Artifacts that were shown.
    seen: BTreeSet<String>,
}

impl<'a> Workload<'a> {
    fn new(cluster: Option<&'a Cluster>) -> Self {
        let fake = FakeRunware::start().expect("it starts");
        let (asked, seen) = (BTreeMap::new(), BTreeSet::new());
        Self { fake, host: free_host(), cluster, asked, seen }
    }

    /// Gives the folder back if it ended before it greeted.
    fn start(&self, folder: TempDir, crash_at: Option<&str>) -> Result<Server, TempDir> {
        let mut command = steadfast();
        command.args(["--listen", &self.host]);
        command.args(flags(&self.fake, Some(&self.host), self.cluster, 300));
        command.envs(crash_at.map(|it| ("STEADFAST_CRASH_AT", it)));
        Server::begin(command, folder)
    }

    /// Asks for a picture or a clip, by its key. `false` if nobody answers any more.
    fn ask(&mut self, server: &Server, key: &str) -> bool {
        let is_clip = key.ends_with('1');
        let mut input = json!({ "positivePrompt": key, "width": 64, "height": 64, "seed": 9 });
        let model = if is_clip { "klingai:5@3" } else { "runware:100@1" };
        if is_clip {
            input["taskType"] = "videoInference".into();
        }
        let body = json!({ "model": model, "input": input, "provider": "runware" }).to_string();
        let answer = server.try_post_json("/api/generations", &body, &[("idempotency-key", key)]);
        let Ok(answer) = answer else {
            self.asked.entry(key.into()).or_default();
            return false;
        };
        assert_eq!(answer.status, 202, "{key}: {}", answer.body);
        let id = answer.json()["id"].as_str().expect("an id").to_owned();
        let before = self.asked.insert(key.into(), Some(id.clone())).flatten();
        assert!(before.is_none_or(|it| it == id), "the same key is the same request");
        true
    }

    /// Notes what is shown. `None` if nobody answers any more, else whether all is over.
    fn look(&mut self, server: &Server) -> Option<bool> {
        let shown = server.try_get("/api/artifacts?limit=200").ok()?;
        assert_eq!(shown.status, 200, "{}", shown.body);
        self.seen.extend(ids(&shown.json()));
        let active = server.try_get("/api/generations?status=active").ok()?;
        Some(active.json()["items"] == json!([]))
    }

    /// Asks and looks until the server ends.
    fn work(&mut self, mut server: Server, at: &str) -> TempDir {
        let mut is_idle = true;
        for number in 0.. {
            assert!(number < 6_000, "point {at} was never reached");
            if is_idle && self.asked.len() < ASKED_MAX * points().len() {
                let key = format!("{at}-{number}-{}", self.asked.len() % 2);
                if !self.ask(&server, &key) {
                    break;
                }
            }
            match self.look(&server) {
                Some(is_over) => is_idle = is_over,
                None => break,
            }
        }
        assert_eq!(server.wait(), None, "it ended by itself");
        server.into_folder()
    }

    /// Everything that was asked for is there, once, and paid for once.
    fn check(&mut self, server: &Server) {
        for key in self.asked.keys().cloned().collect::<Vec<_>>() {
            assert!(self.ask(server, &key), "nobody ends it");
        }
        // Those that came to nobody: the provider tells again.
        for task in self.fake.tasks() {
            self.fake.send_webhook(&task);
        }
        server.json_until("/api/generations?status=active", |it| it["items"] == json!([]));
        let wanted: BTreeSet<&String> = self.asked.values().flatten().collect();
        assert_eq!(wanted.len(), self.asked.len());
        let artifacts = server.json("/api/artifacts?limit=200");
        let made: Vec<&str> =
            items(&artifacts).filter_map(|it| it["generationId"].as_str()).collect();
        let once: BTreeSet<&str> = made.iter().copied().collect();
        assert_eq!(once, wanted.iter().map(|it| it.as_str()).collect(), "each came to something");
        assert_eq!(made.len(), once.len(), "none is there twice");
        let now: BTreeSet<String> = ids(&artifacts).collect();
        assert!(self.seen.is_subset(&now), "what was seen is there");
        let blobs = server.json("/v1/buckets/generations/objects?limit=1000");
        let blobs: BTreeSet<String> = items(&blobs)
            .filter_map(|it| it["key"].as_str()?.strip_prefix("artifacts/").map(str::to_owned))
            .collect();
        assert_eq!(blobs, now, "their bytes, and no orphans");
        assert_eq!(self.fake.billings_max(), 1, "nothing is paid for twice");
        assert_eq!(self.fake.tasks().len(), wanted.len(), "nor under another name");
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().expect("a list").iter()
}

fn ids(list: &Value) -> impl Iterator<Item = String> + '_ {
    items(list).filter_map(|it| it["id"].as_str().map(str::to_owned))
}

fn end_at_every_point(cluster: Option<&Cluster>) {
    let mut workload = Workload::new(cluster);
    let mut folder = tempfile::tempdir().expect("a folder");
    for group in points().chunks(IN_A_ROW) {
        for (number, point) in group.iter().enumerate() {
            // Not always the first time: commits come before anybody asks.
            let nth = if point.starts_with("commit.") { 6 + number } else { 1 };
            let at = format!("{point}:{nth}");
            folder = match workload.start(folder, Some(&at)) {
                Err(folder) => folder,
                Ok(server) => workload.work(server, &at),
            };
        }
        let server = workload.start(folder, None).expect("nobody ends it");
        workload.check(&server);
        folder = server.kill();
    }
    eprintln!("{} requests, {} points", workload.asked.len(), points().len());
}

#[test]
fn generations_whose_server_ends_at_every_point_are_there_once_and_paid_for_once_on_sqlite() {
    end_at_every_point(None);
}

#[test]
fn generations_whose_server_ends_at_every_point_are_there_once_and_paid_for_once_on_postgres() {
    end_at_every_point(Some(&Cluster::start()));
}
