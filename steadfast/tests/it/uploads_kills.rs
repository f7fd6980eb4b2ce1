//! kill -9 of a server under uploads: no image is lost, made up, mislabelled or stuck.

use steadfast_bucket::BUCKET_CRASH_POINTS;
use steadfast_core::{CRASH_POINTS, queue::QUEUE_CRASH_POINTS};
use steadfast_store::{Entropy, SeededEntropy, crash::COMMIT_POINTS};
use tempfile::TempDir;

use crate::{
    classifier::Classifier,
    cluster::Cluster,
    gallery::Gallery,
    harness::{Server, steadfast},
};

/// Kills until the server may come to rest. An event is tried four times, and an attempt that ended
/// with its process counts.
const IN_A_ROW: usize = 3;

/// Chance whose seed is printed. Where a kill meets a server is not repeated by it.
fn chance() -> SeededEntropy {
    let given = std::env::var("STEADFAST_TEST_SEED").ok();
    let seed = given.map_or_else(
        || SeededEntropy::from_system().next() % 1_000_000,
        |it| it.parse().expect("a number"),
    );
    eprintln!("seed {seed} (set STEADFAST_TEST_SEED to have it again)");
    SeededEntropy::new(seed)
}

/// `STEADFAST_SOAK=20 ./test` kills twenty times as often.
fn soak() -> usize {
    std::env::var("STEADFAST_SOAK").ok().and_then(|it| it.parse().ok()).unwrap_or(1)
}

/// Servers on the same data, one after the other.
struct Servers {
    classifier: Classifier,
    /// The database, if it is not in the folder.
    cluster: Option<Cluster>,
}

impl Servers {
    fn of(cluster: Option<Cluster>) -> Self {
        Self { classifier: Classifier::start(), cluster }
    }

    /// Gives the folder back if it ended before it greeted.
    fn start(&self, folder: TempDir, crash_at: Option<&str>) -> Result<Server, TempDir> {
        let mut command = steadfast();
        command.args(["--listen", "127.0.0.1:0"]).args(self.classifier.flags());
        command.args(self.cluster.iter().flat_map(|it| ["--store", &it.url]));
        command.envs(crash_at.map(|it| ("STEADFAST_CRASH_AT", it)));
        Server::begin(command, folder)
    }

    fn start_in_peace(&self, folder: TempDir) -> Server {
        self.start(folder, None).expect("nobody kills it")
    }
}

fn kill_again_and_again(cluster: Option<Cluster>, kills: usize) {
    let (servers, mut gallery) = (Servers::of(cluster), Gallery::new(chance()));
    let mut server = servers.start_in_peace(tempfile::tempdir().expect("a folder"));
    let mut in_a_row = 0;
    for _ in 0..kills {
        let answers = 1 + gallery.below(60);
        let ended = gallery.change(server, answers);
        let folder = ended.unwrap_or_else(|_| panic!("it survived {answers} answers"));
        server = servers.start_in_peace(folder);
        in_a_row += 1;
        if in_a_row == IN_A_ROW || gallery.below(2) == 0 {
            gallery.check(&server);
            in_a_row = 0;
        }
    }
    gallery.check(&server);
    eprintln!("{kills} kills: {}", gallery.summary());
}

/// The points on the way of an upload, in groups that are met one behind the other. Copies, uploads
/// in parts and lifecycles have others.
fn points() -> Vec<Vec<&'static str>> {
    let on_the_way = |it: &&str| it.starts_with("blob.") && *it != "blob.linked";
    let mut of_blobs = BUCKET_CRASH_POINTS.to_vec();
    of_blobs.retain(on_the_way);
    let [mut of_messages, mut of_events] = [CRASH_POINTS, QUEUE_CRASH_POINTS].map(<[_]>::to_vec);
    // Only what a process left behind in its middle is claimed, so it ends there first.
    of_messages[..IN_A_ROW].rotate_right(1);
    of_events[..IN_A_ROW].rotate_right(1);
    let all = [COMMIT_POINTS.to_vec(), of_blobs, of_messages, of_events];
    all.iter().flat_map(|it| it.chunks(IN_A_ROW)).map(<[_]>::to_vec).collect()
}

fn end_at_every_point(cluster: Option<Cluster>) {
    let (servers, mut gallery) = (Servers::of(cluster), Gallery::new(chance()));
    let mut folder = tempfile::tempdir().expect("a folder");
    for group in points() {
        for point in group {
            // A server claims only work that the killed server left, and that is not much.
            let is_early = point.contains("claim.") || point.ends_with(".before");
            let nth = if is_early { 1 } else { 1 + gallery.below(8) };
            let at = format!("{point}:{nth}");
            folder = match servers.start(folder, Some(&at)) {
                Err(folder) => folder,
                Ok(server) => {
                    let ended = gallery.change(server, u64::MAX);
                    ended.unwrap_or_else(|_| panic!("point {at} was never reached"))
                }
            };
        }
        let server = servers.start_in_peace(folder);
        gallery.check(&server);
        folder = server.kill();
    }
    eprintln!("every point: {}", gallery.summary());
}

#[test]
fn uploads_killed_fifteen_times_are_what_the_bucket_holds_on_sqlite() {
    kill_again_and_again(None, 15 * soak());
}

#[test]
fn uploads_killed_six_times_are_what_the_bucket_holds_on_postgres() {
    kill_again_and_again(Some(Cluster::start()), 6 * soak());
}

#[test]
fn uploads_whose_server_ends_at_every_point_are_what_the_bucket_holds_on_sqlite() {
    (0..soak()).for_each(|_| end_at_every_point(None));
}

#[test]
fn uploads_whose_server_ends_at_every_point_are_what_the_bucket_holds_on_postgres() {
    (0..soak()).for_each(|_| end_at_every_point(Some(Cluster::start())));
}
