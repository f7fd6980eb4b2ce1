//! Types that can be stored and sent, and their JSON.
//!
//! Every type of a program is written by one serializer and read by one deserializer: with each
//! further one (of `Value`, of bytes), the compiler compiles all types of the program again.
//!
//! Times in the API: RFC 3339, UTC, milliseconds.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use steadfast_store::{InvalidInput, Json, StoreError, Timestamp};

/// A type that can be serialized and read back: any owned serde type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel",
    label = "derive `Serialize` and `Deserialize`, and own everything"
)]
pub trait Body: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Body for T {}

/// Writes a value as a JSON tree.
pub(crate) fn to_value<T: Serialize>(value: &T) -> serde_json::Result<Value> {
    serde_json::from_str(&serde_json::to_string(value)?)
}

/// Reads a value from a JSON tree.
pub(crate) fn from_value<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    serde_json::from_str(&value.to_string())
}

/// Reads a value that the store has: one that cannot be read is damaged.
pub(crate) fn read_stored<T: DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

/// The path of the field that `error` is about, for example `after.secs` or `names[1]`; `.` is all
/// of `json`. The parser stops at the end of a value of the wrong type, or at its start if it is a
/// list or an object, and behind a key that it refuses.
pub(crate) fn path_of(json: &str, error: &serde_json::Error) -> String {
    let lines_before = json.split_inclusive('\n').take(error.line().saturating_sub(1));
    let stop = lines_before.map(str::len).sum::<usize>() + error.column();
    let mut path = String::new();
    if error.is_data() {
        find(json.as_bytes(), &mut 0, stop, &mut path);
    }
    if path.is_empty() { ".".into() } else { path }
}

/// Walks over the value at `at`; `true` once the path of the value at `stop` is complete.
fn find(json: &[u8], at: &mut usize, stop: usize, path: &mut String) -> bool {
    skip_space(json, at);
    let opens = json.get(*at).copied();
    if *at == stop || !matches!(opens, Some(b'{' | b'[')) {
        skip_scalar(json, at);
        return stop <= *at;
    }
    *at += 1;
    let parent = path.len();
    for index in 0.. {
        skip_space(json, at);
        if matches!(json.get(*at), None | Some(b'}' | b']')) {
            break;
        }
        if opens == Some(b'{') {
            let key_at = *at;
            skip_scalar(json, at);
            let key = serde_json::from_slice::<String>(&json[key_at..*at]).unwrap_or_default();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&key);
            if stop <= *at {
                return true;
            }
            skip_space(json, at);
            *at += 1; // the colon
        } else {
            path.push_str(&format!("[{index}]"));
        }
        if find(json, at, stop, path) {
            return true;
        }
        path.truncate(parent);
        skip_space(json, at);
        if json.get(*at) == Some(&b',') {
            *at += 1;
        }
    }
    *at += 1;
    stop <= *at
}

fn skip_space(json: &[u8], at: &mut usize) {
    while json.get(*at).is_some_and(u8::is_ascii_whitespace) {
        *at += 1;
    }
}

/// Skips a text, a number, or a word. It always moves.
fn skip_scalar(json: &[u8], at: &mut usize) {
    if json.get(*at) == Some(&b'"') {
        *at += 1;
        while json.get(*at).is_some_and(|it| *it != b'"') {
            *at += if json[*at] == b'\\' { 2 } else { 1 };
        }
        *at = (*at + 1).min(json.len());
        return;
    }
    *at += 1;
    let ends = |it: &u8| it.is_ascii_whitespace() || b",:]}[{\"".contains(it);
    while json.get(*at).is_some_and(|it| !ends(it)) {
        *at += 1;
    }
    *at = (*at).min(json.len());
}

/// JSON text. It is stored and sent unchanged: numbers keep their digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// JSON text of any depth.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The value for the store.
    pub fn stored(&self) -> Result<Json, InvalidInput> {
        Json::raw(&self.0)
    }
}

impl From<&Json> for JsonText {
    fn from(json: &Json) -> Self {
        let text = json.as_str();
        let raw = RawValue::from_string(text.to_owned());
        Self(raw.or_else(|_| serde_json::value::to_raw_value(text)).unwrap_or_default())
    }
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a duration as milliseconds: for `#[serde(with)]`.
pub(crate) mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(crate::body::millis).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(from)?.map(Duration::from_millis))
    }
}

/// Writes a duration as seconds: for `#[serde(with)]`.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(duration.as_secs())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}

/// Writes a value as its text: for `#[serde(with)]`.
pub(crate) mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A time, written as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    /// A time beyond the calendar becomes the last or first that it has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.rfc3339())
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read from JSON")]
    struct Whole {
        number: Option<u8>,
        names: Option<Vec<String>>,
        inner: Option<BTreeMap<String, Whole>>,
        choice: Option<Choice>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only read from JSON")]
    enum Choice {
        Plain,
        Named { size: u8 },
    }

    #[test]
    fn the_path_names_the_field_that_does_not_fit() {
        for (json, wanted) in [
            ("7", "."),
            ("[]", "."),
            (r#"{"number": "x"}"#, "number"),
            (r#"{"number": 300, "names": []}"#, "number"),
            (r#"{"number": {"a": 1}}"#, "number"),
            ("{\n  \"names\": [\n\"a\",\n {}]}", "names[1]"),
            (r#"{"names": ["a", "\"}", "ü", 4]}"#, "names[3]"),
            (r#"{"names": "a"}"#, "names"),
            (r#"{"other": 1}"#, "other"),
            (
                r#"{"inner": {"x": {}, "y": {"inner": {"z": {"number": []}}}}}"#,
                "inner.y.inner.z.number",
            ),
            (r#"{"inner": {"x": {"Names": []}}}"#, "inner.x.Names"),
            (r#"{"inner": {"a\"b": {"names": null, "number": -1}}}"#, "inner.a\"b.number"),
            (r#"{"choice": "Round"}"#, "choice"),
            (r#"{"choice": {"Named": {}}}"#, "choice.Named"),
            (r#"{"choice": {"Named": {"size": true}}}"#, "choice.Named.size"),
            (r#"{"number": 1"#, "."),
            (r#"{"number": 1}}"#, "."),
            ("", "."),
        ] {
            let error = serde_json::from_str::<Whole>(json).err().expect("it does not fit");
            assert_eq!(path_of(json, &error), wanted, "{json}: {error}");
        }
    }

    #[test]
    fn a_place_is_found_in_text_that_is_no_json() {
        let texts =
            ["{", "[", "{\"", "{\"a", "{\"a\":", "[,", "{,}", "\"\\", "\u{fc}", "{]}", "[}"];
        for text in texts {
            for stop in 0..=text.len() + 1 {
                find(text.as_bytes(), &mut 0, stop, &mut String::new());
            }
        }
    }

    #[test]
    fn a_time_is_written_as_rfc_3339_and_read_again() {
        let time = Time(Timestamp(1_794_710_096_789));
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2026-11-15T02:34:56.789Z\"");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
        assert!(Time(Timestamp::MAX).to_string().starts_with("9999-12-31T"));
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
    }
}
