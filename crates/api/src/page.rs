//! Pages of lists.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::ToSchema;

/// Maximum number of rows of a page.
pub const LIMIT_MAX: u32 = 1_000;

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The rows.
    #[schema(inline)]
    pub items: Vec<T>,
    /// The `cursor` of the next page; null at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list with one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// Maximum number of rows of a response, 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(value_type = u32, minimum = 1, maximum = 1000, default = 50)]
pub struct Limit(u32);

impl Limit {
    /// A number of rows, clamped to the bounds.
    pub fn of(rows: u32) -> Self {
        Self(rows.clamp(1, LIMIT_MAX))
    }

    /// The number of rows.
    pub fn rows(self) -> usize {
        self.0 as usize
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(rows @ 1..=LIMIT_MAX) => Ok(Self(rows)),
            Ok(_) | Err(_) => {
                Err(format!("`limit` must be a number from 1 to {LIMIT_MAX}, not `{text}`"))
            }
        }
    }
}

/// Parses text, because a query has only text.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
