//! Pages of lists: their limit and their cursor.

mod cursor;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;
use steadfast_api::{Code, Limit, Page};
use steadfast_core::store::{Address, EntityKind, Position, Version};

pub use self::cursor::Cursor;
use crate::Problem;

/// The requested page of a list.
///
/// ```
/// use steadfast_web::{Cursor, Limit, ListPage, PageRequest, Problem};
///
/// struct Bid {
///     at: i64,
///     id: String,
/// }
///
/// fn list(limit: Limit, cursor: Option<&str>) -> Result<ListPage<String>, Problem> {
///     let page = PageRequest::new(limit, cursor)?.at_most(200)?;
///     let bids = read(page.after_time()?, page.rows_to_read());
///     Ok(page.page(bids, |it| Cursor::Time(it.at, it.id.clone()), |it| it.id))
/// }
/// # fn read(_: Option<(i64, String)>, _: u32) -> Vec<Bid> { vec![] }
/// ```
#[derive(Debug)]
pub struct PageRequest {
    /// Maximum number of rows.
    pub limit: usize,
    cursor: Option<Cursor>,
}

impl PageRequest {
    /// Parses a limit and a cursor. An empty cursor is none: the list begins.
    pub fn new(limit: Limit, cursor: Option<&str>) -> Result<Self, Problem> {
        let cursor = cursor.filter(|it| !it.is_empty());
        let cursor = cursor.map(|it| Cursor::decode(it).ok_or_else(bad_cursor)).transpose()?;
        Ok(Self { limit: limit.rows(), cursor })
    }

    /// Refuses a limit above `max`, for a list whose rows are large.
    pub fn at_most(self, max: usize) -> Result<Self, Problem> {
        if max < self.limit {
            let detail = format!("`limit` must be a number from 1 to {max}, not `{}`", self.limit);
            return Err(Problem::of(Code::BadRequest, detail));
        }
        Ok(self)
    }

    /// The number of rows to read: one more than the page has, to know whether more exist.
    pub fn rows_to_read(&self) -> u32 {
        u32::try_from(self.limit).map_or(u32::MAX, |it| it.saturating_add(1))
    }

    /// Builds a page of the rows that were read, one more than the limit if more exist.
    pub fn page<T, U>(
        &self,
        found: Vec<T>,
        next: impl Fn(&T) -> Cursor,
        entry: impl Fn(T) -> U,
    ) -> Page<U> {
        page_of(found, self.limit, |it| next(it).encode(), entry)
    }

    /// The value of the cursor, which must be one of this list.
    fn after<'a, T>(
        &'a self,
        value: impl Fn(&'a Cursor) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.cursor.as_ref().map(|it| value(it).ok_or_else(bad_cursor)).transpose()
    }

    /// The address after which the page begins.
    pub fn after_address(&self) -> Result<Option<&Address>, Problem> {
        self.after(|it| if let Cursor::Address(address) = it { Some(address) } else { None })
    }

    /// The name after which the page begins.
    pub fn after_name(&self) -> Result<Option<&str>, Problem> {
        self.after(|it| if let Cursor::Name(name) = it { Some(&**name) } else { None })
    }

    /// The class after which the page begins.
    pub fn after_class(&self) -> Result<Option<&str>, Problem> {
        let is_class = |it: &&str| Address::new(EntityKind::Object, it, "x").is_ok();
        let after = self.after_name()?;
        if after.is_some() && after.filter(is_class).is_none() {
            return Err(bad_cursor());
        }
        Ok(after)
    }

    /// The time, in milliseconds, and the id after which the page begins.
    pub fn after_time(&self) -> Result<Option<(i64, String)>, Problem> {
        self.after(|it| if let Cursor::Time(at, id) = it { Some((*at, id.clone())) } else { None })
    }

    /// The position after which the page begins.
    pub fn after_position(&self) -> Result<Position, Problem> {
        let after = self.after(|it| if let Cursor::Position(at) = it { Some(*at) } else { None });
        Ok(after?.unwrap_or(0))
    }

    /// The version after which the page begins.
    pub fn after_version(&self) -> Result<Version, Problem> {
        let after = self.after(|it| if let Cursor::Version(at) = it { Some(*at) } else { None });
        Ok(after?.unwrap_or(0))
    }
}

/// A page of rows of which one more than its limit was read, if more exist. `next` is the cursor
/// behind a row.
pub fn page_of<T, U>(
    mut found: Vec<T>,
    limit: usize,
    next: impl Fn(&T) -> String,
    entry: impl Fn(T) -> U,
) -> Page<U> {
    let is_more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(next);
    Page { items: found.into_iter().map(entry).collect(), next }
}

/// The problem of an invalid cursor.
pub fn bad_cursor() -> Problem {
    let detail =
        "`cursor` is not the `next` of an earlier page of this list; leave it out to begin";
    Problem::of(Code::BadRequest, detail)
}

/// Parses the query and refuses unknown fields: a misspelt filter must not be ignored.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(Problem::of(Code::BadRequest, error.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_cursor_if_more_rows_exist() {
        let rows = |count: i64| (0..count).map(|it| (it, format!("id-{it}"))).collect::<Vec<_>>();
        let page = PageRequest::new(Limit::of(2), None).unwrap();
        assert_eq!((page.rows_to_read(), page.after_time().unwrap()), (3, None));
        let time = |it: &(i64, String)| Cursor::Time(it.0, it.1.clone());
        let last = page.page(rows(2), time, |it| it.0);
        assert_eq!((last.items, last.next), (vec![0, 1], None));
        let first = page.page(rows(3), time, |it| it.0);
        assert_eq!(first.items, [0, 1]);
        let next = PageRequest::new(Limit::of(2), first.next.as_deref()).unwrap();
        assert_eq!(next.after_time().unwrap(), Some((1, "id-1".into())));
        assert!(next.after_name().is_err() && next.after_position().is_err());
        assert!(PageRequest::new(Limit::of(2), Some("")).unwrap().after_time().unwrap().is_none());
    }

    #[test]
    fn a_list_may_have_a_lower_limit() {
        let page = |rows| PageRequest::new(Limit::of(rows), None).unwrap().at_most(200);
        assert_eq!(page(200).unwrap().limit, 200);
        let refused = page(201).unwrap_err();
        assert_eq!(refused.code(), "bad_request");
        assert_eq!(refused.detail(), "`limit` must be a number from 1 to 200, not `201`");
    }
}
