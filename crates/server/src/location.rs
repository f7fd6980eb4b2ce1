//! The location of the data: a folder or a database.

use std::{fmt, path::PathBuf, str::FromStr};

/// The value of `--store`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    /// A SQLite file in the data folder.
    Sqlite,
    /// A PostgreSQL database.
    Postgres(String),
}

impl FromStr for StoreChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "sqlite" {
            return Ok(StoreChoice::Sqlite);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(StoreChoice::Postgres(text.into()));
        }
        Err("write `sqlite`, or a database as postgres://user@host/database")
    }
}

impl fmt::Debug for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreChoice::Sqlite => f.write_str("sqlite"),
            StoreChoice::Postgres(url) => f.write_str(&redacted(url)),
        }
    }
}

/// The location of the data. Shown without the password.
#[derive(Clone)]
pub(crate) enum Location {
    /// A folder with a SQLite file.
    Folder(PathBuf),
    /// A PostgreSQL database.
    Database(String),
    /// Opened by the host program of these routes.
    Host,
}

impl Location {
    /// The kind of store, for people.
    pub(crate) fn store(&self) -> &'static str {
        match self {
            Location::Folder(_) => "SQLite",
            Location::Database(_) => "PostgreSQL",
            Location::Host => "opened by the host program",
        }
    }

    /// The noun for this location.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Location::Folder(_) => "data folder",
            Location::Database(_) => "database",
            Location::Host => "store",
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Folder(folder) => write!(f, "{}", folder.display()),
            Location::Database(url) => f.write_str(&redacted(url)),
            Location::Host => f.write_str("the host program's"),
        }
    }
}

const HIDDEN: &str = "***";

/// Parts of parameter names whose values are secrets.
const SECRET: [&str; 6] = ["pass", "token", "secret", "key", "sig", "auth"];

/// Hides the secrets of a URL: the password before the `@`, a user without a password unless it is
/// a database URL, and parameters with secret names. Other texts stay unchanged.
pub(crate) fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    // The password of a database may contain an unescaped `/`, `?` or `@`: the last `@` counts.
    let is_database = scheme.starts_with("postgres");
    let is_name = |it: &str| !it.contains(['/', '?']);
    let host = rest.rfind('@').filter(|_| is_database).unwrap_or(0);
    let query = rest[host..].find('?').map(|it| host + it);
    let (before, query) = query.map_or((rest, None), |it| (&rest[..it], Some(&rest[it + 1..])));
    let before = match before.rsplit_once('@') {
        None => before.to_owned(),
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) if !is_database || is_name(name) => format!("{name}:{HIDDEN}@{host}"),
            // Without a password, it is a user of a database, or the path of another URL.
            None if is_database == is_name(user) => before.to_owned(),
            Some(_) | None => format!("{HIDDEN}@{host}"),
        },
    };
    let parameters = query.map(|it| it.split('&').map(redacted_parameter).collect::<Vec<_>>());
    let query = parameters.map_or(String::new(), |it| format!("?{}", it.join("&")));
    format!("{scheme}://{before}{query}")
}

fn redacted_parameter(parameter: &str) -> String {
    let is_secret = |name: &str| SECRET.iter().any(|it| name.to_ascii_lowercase().contains(it));
    match parameter.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
        Some(_) | None => parameter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let check = |url: &str, shown: &str| assert_eq!(redacted(url), shown);
        check("postgres://host/db", "postgres://host/db");
        check("postgres://me@host:5432/db", "postgres://me@host:5432/db");
        check("postgres://me:s3cret@host/db", "postgres://me:***@host/db");
        check("postgresql://me:a@b/c@host/db?x=1", "postgresql://me:***@host/db?x=1");
        check("postgres://me:a?b@host/db?password=p", "postgres://me:***@host/db?password=***");
        check("postgres://me:a/b?c@host/db", "postgres://me:***@host/db");
        check("postgres://me:a?b/c@d@host/db?sig=1", "postgres://me:***@host/db?sig=***");
        check("postgres://host?password=a@b/db", "postgres://***@b/db");
        check("postgres://host/db?password=a:b@c", "postgres://***@c");
        check("https://host?sig=a@b", "https://host?sig=***");
        check("postgres:///db?host=/run&password=p", "postgres:///db?host=/run&password=***");
        check("https://a-token@host/x", "https://***@host/x");
        check("https://host/@me?sig=1&page=2", "https://host/@me?sig=***&page=2");
        check("./data@home:1", "./data@home:1");
        assert_eq!(
            format!("{:?}", StoreChoice::Postgres("postgres://a:b@c/d".into())),
            "postgres://a:***@c/d"
        );
    }
}
