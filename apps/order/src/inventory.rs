//! The stock: an object, so that reserving is a turn of its own.

use serde::{Deserialize, Serialize};
use steadfast_core::{Handle, Object, Result, Turn};

/// The reservations by order.
#[derive(Debug)]
pub struct Inventory;

/// Reserves the goods of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reserve {
    /// Which order.
    pub order_id: String,
}

/// Gives them back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// Which order.
    pub order_id: String,
}

/// Asks which orders have goods reserved.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reserved {}

impl Object for Inventory {
    const CLASS: &'static str = "inventory";
    type Calls = (Reserve, Release, Reserved);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE reservation (order_id TEXT NOT NULL PRIMARY KEY) STRICT"];
}

impl Handle<Reserve> for Inventory {
    const NAME: &'static str = "reserve";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Reserve) -> Result<()> {
        turn.sql().execute("INSERT OR IGNORE INTO reservation VALUES (?1)", [msg.order_id])?;
        Ok(())
    }
}

impl Handle<Release> for Inventory {
    const NAME: &'static str = "release";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Release) -> Result<()> {
        turn.sql().execute("DELETE FROM reservation WHERE order_id = ?1", [msg.order_id])?;
        Ok(())
    }
}

impl Handle<Reserved> for Inventory {
    const NAME: &'static str = "reserved";
    const PUBLIC: bool = true;
    type Reply = Vec<String>;

    fn handle(&self, turn: &Turn<Self>, _: Reserved) -> Result<Vec<String>> {
        let mut list = turn.sql().prepare("SELECT order_id FROM reservation ORDER BY order_id")?;
        let orders = list.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(orders)
    }
}
