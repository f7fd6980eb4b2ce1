//! A bucket: each stored or deleted photo sends an event to a queue, and an album follows.
//!
//!     cargo run -p steadfast-examples --bin bucket -- --data data/bucket
//!     printf meow > cat.jpg
//!     curl -T cat.jpg localhost:8787/v1/buckets/photos/objects/cat.jpg
//!     cargo run -p steadfast-examples --bin bucket -- objects sql album all 'SELECT * FROM photo'

use steadfast::prelude::*;

const PHOTOS: Bucket = Bucket::named("photos");
const CHANGES: Queue<BlobEvent> = Queue::named("photo-changes");

struct Photographer;

impl Consumer for Photographer {
    type Message = BlobEvent;
    async fn deliver(&self, delivery: Delivery<BlobEvent>) -> Result<Settled> {
        // `delivery.bucket(PHOTOS).get(delivery.message.key())` reads the bytes.
        let event = delivery.message.clone();
        delivery.settle_with(Album::at("all"), event).await
    }
}

struct Album;

impl Object for Album {
    const CLASS: &'static str = "album";
    type Calls = (BlobEvent,);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE photo (name TEXT PRIMARY KEY, bytes INTEGER, sequence INTEGER)"];
}

impl Handle<BlobEvent> for Album {
    const NAME: &'static str = "change";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, event: BlobEvent) -> Result<()> {
        // Events may arrive in another order. The sequence says which change of a key is newer; a
        // deleted photo has no size.
        let put = "INSERT INTO photo VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE \
             SET bytes = ?2, sequence = ?3 WHERE sequence < ?3";
        turn.sql().execute(put, (event.key(), event.object.size, event.sequence))?;
        Ok(())
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("album")
        .bucket(PHOTOS.notify("", CHANGES))
        .queue(CHANGES)
        .consume(CHANGES, Photographer)
        .object(Album))
}
