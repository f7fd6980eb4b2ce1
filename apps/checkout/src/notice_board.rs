//! A board with the latest events of group checkouts: they publish into a queue, and its consumer
//! puts each event on the board.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::{
    Consumer, Delivery, Handle, Object, Queue, Result, Settled, Turn, process::Published,
};

/// All events that group checkouts publish.
pub const PUBLISHED: Queue<Published> = Queue::named("checkout-news");

/// Notices on a board; older ones are taken down.
const NOTICES_MAX: u32 = 100;

/// Puts each published event on the board of the lobby.
#[derive(Debug)]
pub struct BoardConsumer;

impl Consumer for BoardConsumer {
    type Message = Published;

    async fn deliver(&self, delivery: Delivery<Published>) -> Result<Settled> {
        let Published { instance, message_type, data, .. } = delivery.message.clone();
        let notice = Notice { group: instance, message_type, data };
        // One commit puts it on the board and takes it out of the queue: not lost, not twice.
        delivery.settle_with(NoticeBoard::at(NoticeBoard::LOBBY), notice).await
    }
}

/// A board with the latest notices.
#[derive(Debug)]
pub struct NoticeBoard;

impl NoticeBoard {
    /// The board of the lobby.
    pub const LOBBY: &'static str = "lobby";
}

/// An event of a group; as a message, puts it on the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The group.
    pub group: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its details.
    pub data: Value,
}

/// Asks for the notices, the latest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Notices {}

impl Object for NoticeBoard {
    const CLASS: &'static str = "notice-board";
    type Calls = (Notice, Notices);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE notice (number INTEGER PRIMARY KEY, notice TEXT NOT NULL) STRICT"];
}

impl Handle<Notice> for NoticeBoard {
    const NAME: &'static str = "put";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Notice) -> Result<()> {
        let add = "INSERT INTO notice (notice) VALUES (?1)";
        turn.sql().execute(add, [serde_json::to_string(&msg)?])?;
        let old = "DELETE FROM notice WHERE number <= (SELECT max(number) FROM notice) - ?1";
        turn.sql().execute(old, [NOTICES_MAX])?;
        Ok(())
    }
}

impl Handle<Notices> for NoticeBoard {
    const NAME: &'static str = "notices";
    const PUBLIC: bool = true;
    type Reply = Vec<Notice>;

    fn handle(&self, turn: &Turn<Self>, _: Notices) -> Result<Vec<Notice>> {
        let mut all = turn.sql().prepare("SELECT notice FROM notice ORDER BY number DESC")?;
        let rows = all.query_map((), |row| row.get::<_, String>(0))?;
        rows.map(|it| Ok(serde_json::from_str(&it?)?)).collect()
    }
}
