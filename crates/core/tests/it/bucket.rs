//! Buckets in a program: the event of a blob reaches an object through a queue, wherever the
//! process crashes, and a run reads the blob.

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, BlobEvent, Bucket, Consumer, Ctx, Delivery, Handle, Object, Queue, Result, Settled,
    StartError, Turn, Workflow,
    bucket::{Condition, GetOptions},
    store::{MemoryStore, Store, SystemClock},
    test::assert_survives_crashes,
};

const PHOTOS: Bucket = Bucket::named("photos");
const CHANGES: Queue<BlobEvent> = Queue::named("changes");

/// Keeps the last change of each photo of an album, by sequence number.
struct Album;

#[derive(Clone, Serialize, Deserialize)]
struct Changed {
    name: String,
    sequence: i64,
    version: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Show;

impl Object for Album {
    const CLASS: &'static str = "album";
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE photo (name TEXT PRIMARY KEY, sequence INTEGER NOT NULL, version TEXT)"];
    type Calls = (Changed, Show);
}

impl Handle<Changed> for Album {
    const NAME: &'static str = "changed";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Changed) -> Result<()> {
        turn.sql().execute(
            "INSERT INTO photo VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE \
             SET sequence = ?2, version = ?3 WHERE sequence < ?2",
            (msg.name, msg.sequence, msg.version),
        )?;
        Ok(())
    }
}

impl Handle<Show> for Album {
    const NAME: &'static str = "show";
    type Reply = Vec<(String, i64, bool)>;

    fn handle(&self, turn: &Turn<Self>, _: Show) -> Result<Self::Reply> {
        let mut all = turn.sql().prepare("SELECT * FROM photo ORDER BY name")?;
        let rows = all.query_map((), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?.is_some()))
        })?;
        Ok(rows.collect::<std::result::Result<_, _>>()?)
    }
}

struct Filing;

impl Consumer for Filing {
    type Message = BlobEvent;

    async fn deliver(&self, delivery: Delivery<BlobEvent>) -> Result<Settled> {
        let event = delivery.message.clone();
        let Some((album, name)) = event.key().split_once('/') else { return Ok(delivery.done()) };
        let is_there = !event.action.is_deletion();
        let changed = Changed {
            name: name.into(),
            sequence: event.sequence,
            version: is_there.then(|| event.version.clone()),
        };
        delivery.settle_with(Album::at(album), changed).await
    }
}

/// Counts the bytes of exactly one version of a photo.
struct Count;

#[derive(Clone, Serialize, Deserialize)]
struct Counted {
    key: String,
    version: String,
}

impl Workflow for Count {
    const NAME: &'static str = "count";
    type Input = Counted;
    type Output = usize;

    async fn run(&self, ctx: &Ctx, input: Counted) -> Result<usize> {
        ctx.step("count", async || {
            let condition = Condition::version(&input.version);
            let get = GetOptions { condition, ..GetOptions::default() };
            let reading = ctx.bucket(PHOTOS).read(&input.key, get).await?;
            Ok(reading.bytes().await?.len())
        })
        .await
    }
}

fn program() -> App {
    App::new("test")
        .bucket(PHOTOS.notify("album/", CHANGES))
        .queue(CHANGES)
        .consume(CHANGES, Filing)
        .object(Album)
        .workflow(Count)
}

#[tokio::test]
async fn a_change_of_a_blob_comes_to_an_object_and_to_a_run_whatever_ends_the_process() {
    let survived = assert_survives_crashes(program, async |app| {
        let photos = app.bucket(PHOTOS);
        photos.put("elsewhere", b"not told").await?;
        // A client that was cut off may not know whether its put succeeded: it checks first.
        if photos.head("album/b.png").await?.is_none() {
            photos.put("album/b.png", b"four").await?;
        }
        let blob = photos.head("album/b.png").await?.expect("it was put");
        if photos.head("album/c.png").await?.is_none() {
            photos.copy("album/b.png", "album/c.png").await?;
        }
        let counted = Counted { key: "album/b.png".into(), version: blob.version() };
        app.start(Count::at("b"), counted).await?;
        app.settle().await;
        let steps = crate::play::results(app.runs(), "count", "b").await?;
        let shown = app.call(Album::at("album"), Show).await?;
        // The blobs and the album agree.
        let mut told = Vec::new();
        for name in ["b.png", "c.png"] {
            let blob = photos.head(&format!("album/{name}")).await?.expect("it was put");
            told.push((name.to_owned(), blob.sequence, true));
        }
        Ok((steps, shown == told, shown))
    });
    assert!(10 < survived.await);
}

#[tokio::test]
async fn events_of_deletions_have_sequence_numbers() {
    let app = program().test().await.unwrap();
    let photos = app.bucket(PHOTOS);
    photos.put("album/a", b"1").await.unwrap();
    assert_eq!(photos.delete("album/a").await.unwrap(), Some(2));
    assert_eq!(photos.delete("album/a").await.unwrap(), None);
    app.settle().await;
    let shown = app.call(Album::at("album"), Show).await.unwrap();
    assert_eq!(shown, [("a".to_owned(), 2, false)]);
    assert_eq!(photos.get("album/a").await.unwrap(), None);
}

#[tokio::test]
async fn a_program_that_declares_a_bucket_says_where_its_blobs_are() {
    let store = || std::sync::Arc::new(MemoryStore::new(std::sync::Arc::new(SystemClock)));
    let error = program().start(store()).await.err().unwrap();
    assert!(matches!(error, StartError::Bucket(_)), "{error}");
    assert!(error.to_string().contains("blob_folder"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let (kept, place) = (store(), folder.path().join("blobs"));
    let first = program().blob_folder(&place).start(kept.clone()).await.unwrap();
    first.bucket(PHOTOS).put("k", b"bytes").await.unwrap();
    let second = program().blob_folder(&place).start(kept.clone()).await;
    assert!(second.err().unwrap().to_string().contains("used by another process"));
    first.stop().await;
    let foreign = program().blob_folder(&place).start(store()).await;
    assert!(foreign.err().unwrap().to_string().contains("store"), "whose files are they?");
    let again = program().blob_folder(&place).start(kept.clone()).await.unwrap();
    assert_eq!(again.bucket(PHOTOS).get("k").await.unwrap().unwrap(), b"bytes");
    again.stop().await;
    kept.close().await;
}
