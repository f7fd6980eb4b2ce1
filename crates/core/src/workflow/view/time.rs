//! Times in the API: RFC 3339, UTC, milliseconds.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

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
    use super::*;

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
