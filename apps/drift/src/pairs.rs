//! All pairs that were ever compared, the latest first.

use serde::{Deserialize, Serialize};
use steadfast_core::{Address, Handle, Object, Result, Turn};

use crate::Comparison;

/// The list of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Pairs;

impl Pairs {
    /// The list of the whole platform.
    pub const ALL: &'static str = "all";

    /// The list of an organization, or of the whole platform.
    pub fn of(organization: Option<&str>) -> Address<Self> {
        match organization {
            Some(it) => Self::at(format!("organization/{it}")),
            None => Self::at(Self::ALL),
        }
    }
}

/// A pair was compared, or its comparison has ended. Words may come in any order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairSeen {
    /// The key of the pair.
    pub pair: String,
    /// The comparison.
    pub comparison_id: String,
    /// The compared URLs.
    pub comparison: Comparison,
    /// When, in milliseconds.
    pub at: i64,
    /// How bad it is, when that is known.
    pub severity: Option<String>,
}

/// Pairs, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListPairs {
    /// The maximum number of pairs.
    pub limit: u32,
    /// After the pair with this time and key.
    #[serde(default)]
    pub after: Option<(i64, String)>,
}

/// A pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairEntry {
    /// Its key.
    pub pair_key: String,
    /// The last compared URLs.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The last comparison.
    pub last_comparison_id: String,
    /// How bad it was, when that is known.
    pub max_severity: Option<String>,
    /// When it was, in milliseconds.
    pub last_at: i64,
}

impl Object for Pairs {
    const CLASS: &'static str = "env-pairs";
    type Calls = (PairSeen, ListPairs);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE pairs (
            pair TEXT PRIMARY KEY,
            entry TEXT NOT NULL,
            at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX pairsAt ON pairs (at)"];
}

impl Handle<PairSeen> for Pairs {
    const NAME: &'static str = "pair-seen";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: PairSeen) -> Result<()> {
        let entry = PairEntry {
            pair_key: msg.pair.clone(),
            comparison: msg.comparison,
            last_comparison_id: msg.comparison_id,
            max_severity: msg.severity,
            last_at: msg.at,
        };
        turn.sql().execute(
            "INSERT INTO pairs (pair, entry, at) VALUES (?1, ?2, ?3) \
             ON CONFLICT (pair) DO UPDATE SET entry = excluded.entry, at = excluded.at \
             WHERE at <= excluded.at",
            (&msg.pair, serde_json::to_string(&entry)?, msg.at),
        )?;
        Ok(())
    }
}

impl Handle<ListPairs> for Pairs {
    const NAME: &'static str = "list-pairs";
    const PUBLIC: bool = true;
    type Reply = Vec<PairEntry>;

    fn handle(&self, turn: &Turn<Self>, msg: ListPairs) -> Result<Vec<PairEntry>> {
        let mut select = turn.sql().prepare(
            "SELECT entry FROM pairs WHERE at <= ?1 AND (at < ?1 OR pair > ?2) \
             ORDER BY at DESC, pair LIMIT ?3",
        )?;
        let (at, pair) = msg.after.unwrap_or((i64::MAX, String::new()));
        let rows = select.query_map((at, pair, msg.limit), |row| row.get::<_, String>(0))?;
        rows.map(|it| Ok(serde_json::from_str(&it?)?)).collect()
    }
}
