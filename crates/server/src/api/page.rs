//! Parts of lists: how long they are and where the next one begins.

mod cursor;
mod gather;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;
use steadfast_api::{Code, Limit};
use steadfast_store::{Address, EntityKind, Position, Version};
use steadfast_web::Problem;

pub(crate) use self::{
    cursor::Cursor,
    gather::{Gathered, gather},
};

/// Rows of a page unless told otherwise.
const LIMIT: usize = 50;

/// Rows of a page at most.
const LIMIT_MAX: usize = 1_000;

/// What the place of a page is called in most queries.
pub(crate) const CURSOR: &str = "cursor";

/// Which part of a list is wanted.
#[derive(Debug)]
pub(crate) struct Part {
    /// Rows at most.
    pub(crate) limit: usize,
    cursor: Option<Cursor>,
}

impl Part {
    /// Checks what a query says.
    pub(crate) fn of(limit: Option<&str>, cursor: Option<&str>) -> Result<Self, Problem> {
        let limit = rows(limit)?;
        let cursor = cursor
            .map(|text| Cursor::decode(text).ok_or_else(|| bad_cursor(CURSOR)))
            .transpose()?;
        Ok(Self { limit, cursor })
    }

    /// Checks a limit and a cursor.
    pub(crate) fn new(limit: Limit, cursor: Option<&str>) -> Result<Self, Problem> {
        Self::of(Some(&limit.to_string()), cursor)
    }

    /// The address behind which the page begins.
    pub(crate) fn after_address(&self) -> Result<Option<&Address>, Problem> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Address(address)) => Ok(Some(address)),
            Some(_) => Err(bad_cursor(CURSOR)),
        }
    }

    /// The class behind which the page begins.
    pub(crate) fn after_class(&self) -> Result<Option<&str>, Problem> {
        let is_class = |it: &str| Address::new(EntityKind::Object, it, "x").is_ok();
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Name(class)) if is_class(class) => Ok(Some(class)),
            Some(_) => Err(bad_cursor(CURSOR)),
        }
    }

    /// The position behind which the page begins.
    pub(crate) fn after_position(&self) -> Result<Position, Problem> {
        match self.cursor {
            None => Ok(0),
            Some(Cursor::Position(position)) => Ok(position),
            Some(_) => Err(bad_cursor(CURSOR)),
        }
    }

    /// The version behind which the page begins.
    pub(crate) fn after_version(&self) -> Result<Version, Problem> {
        match self.cursor {
            None => Ok(0),
            Some(Cursor::Version(version)) => Ok(version),
            Some(_) => Err(bad_cursor(CURSOR)),
        }
    }
}

/// How many rows are wanted.
pub(crate) fn rows(limit: Option<&str>) -> Result<usize, Problem> {
    limit.map_or(Ok(LIMIT), |text| match text.parse() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => {
            let detail = format!("`limit` must be a number from 1 to {LIMIT_MAX}, not `{text}`");
            Err(Problem::of(Code::BadRequest, detail))
        }
    })
}

/// A cursor that is none.
pub(crate) fn bad_cursor(name: &str) -> Problem {
    let detail = format!(
        "`{name}` is not the `next` of an earlier page of this list; leave it out to begin"
    );
    Problem::of(Code::BadRequest, detail)
}

/// Reads the query, and refuses what it does not know: a misspelt filter must not be ignored.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(Problem::of(Code::BadRequest, error.body_text())),
        }
    }
}
