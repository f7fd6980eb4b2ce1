//! Pages of lists: their limit and their cursor.

mod collect;
mod cursor;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;
use steadfast_api::{Code, Limit, Page};
use steadfast_store::{Address, EntityKind, Position, Version};
use steadfast_web::Problem;

pub(crate) use self::{
    collect::{MessagePage, collect},
    cursor::Cursor,
};

/// The requested page of a list.
#[derive(Debug)]
pub(crate) struct PageRequest {
    /// Maximum number of rows.
    pub(crate) limit: usize,
    cursor: Option<Cursor>,
}

impl PageRequest {
    /// Parses a limit and a cursor.
    pub(crate) fn new(limit: Limit, cursor: Option<&str>) -> Result<Self, Problem> {
        let cursor = cursor.map(|it| Cursor::decode(it).ok_or_else(bad_cursor)).transpose()?;
        Ok(Self { limit: limit.rows(), cursor })
    }

    /// Builds a page of the rows that were read, one more than the limit if more exist.
    pub(crate) fn page<T, U>(
        &self,
        mut found: Vec<T>,
        next: impl Fn(&T) -> Cursor,
        entry: impl Fn(T) -> U,
    ) -> Page<U> {
        let is_more = self.limit < found.len();
        found.truncate(self.limit);
        let next = found.last().filter(|_| is_more).map(|it| next(it).encode());
        Page { items: found.into_iter().map(entry).collect(), next }
    }

    /// The address after which the page begins.
    pub(crate) fn after_address(&self) -> Result<Option<&Address>, Problem> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Address(address)) => Ok(Some(address)),
            Some(_) => Err(bad_cursor()),
        }
    }

    /// The name after which the page begins.
    pub(crate) fn after_name(&self) -> Result<Option<&str>, Problem> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Name(name)) => Ok(Some(name)),
            Some(_) => Err(bad_cursor()),
        }
    }

    /// The class after which the page begins.
    pub(crate) fn after_class(&self) -> Result<Option<&str>, Problem> {
        let is_class = |it: &&str| Address::new(EntityKind::Object, it, "x").is_ok();
        let after = self.after_name()?;
        if after.is_some() && after.filter(is_class).is_none() {
            return Err(bad_cursor());
        }
        Ok(after)
    }

    /// The position after which the page begins.
    pub(crate) fn after_position(&self) -> Result<Position, Problem> {
        match self.cursor {
            None => Ok(0),
            Some(Cursor::Position(position)) => Ok(position),
            Some(_) => Err(bad_cursor()),
        }
    }

    /// The version after which the page begins.
    pub(crate) fn after_version(&self) -> Result<Version, Problem> {
        match self.cursor {
            None => Ok(0),
            Some(Cursor::Version(version)) => Ok(version),
            Some(_) => Err(bad_cursor()),
        }
    }
}

/// The problem of an invalid cursor.
pub(crate) fn bad_cursor() -> Problem {
    let detail =
        "`cursor` is not the `next` of an earlier page of this list; leave it out to begin";
    Problem::of(Code::BadRequest, detail)
}

/// Parses the query and refuses unknown fields: a misspelt filter must not be ignored.
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
