//! Times in words: RFC 3339 for APIs, and the format of HTTP headers. UTC, Gregorian calendar.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::Timestamp;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// -9999-01-01, and the last millisecond of 9999.
const CALENDAR: (i64, i64) = (-377_705_116_800_000, 253_402_300_799_999);

/// The first millisecond of year 0: years of RFC 3339 have four digits and no sign.
const YEAR_0: i64 = -62_167_219_200_000;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date and a time of day in UTC. It is shown as RFC 3339, without milliseconds if they are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// From -9999 to 9999.
    pub year: i64,
    /// From 1 to 12.
    pub month: i64,
    /// From 1 to 31.
    pub day: i64,
    /// From 0 to 23.
    pub hour: i64,
    /// From 0 to 59.
    pub minute: i64,
    /// From 0 to 59.
    pub second: i64,
    /// From 0 to 999.
    pub millisecond: i64,
}

impl DateTime {
    /// The date and time. `None` outside of the years -9999 to 9999.
    pub fn of(at: Timestamp) -> Option<Self> {
        if !(CALENDAR.0..=CALENDAR.1).contains(&at.0) {
            return None;
        }
        let (year, month, day) = date(at.0.div_euclid(DAY_MILLIS));
        let millis = at.0.rem_euclid(DAY_MILLIS);
        let (minutes, millis) = (millis / 60_000, millis % 60_000);
        let (hour, minute) = (minutes / 60, minutes % 60);
        let (second, millisecond) = (millis / 1_000, millis % 1_000);
        Some(Self { year, month, day, hour, minute, second, millisecond })
    }

    /// Midnight of a day. `None` if there is no such day.
    pub fn midnight(year: i64, month: i64, day: i64) -> Option<Timestamp> {
        let is_year = (-9_999..=9_999).contains(&year) && (1..=12).contains(&month);
        let days = is_year.then(|| days(year, month, day))?;
        (date(days) == (year, month, day)).then(|| Timestamp(days * DAY_MILLIS))
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, millisecond } = *self;
        match year {
            0.. => write!(f, "{year:04}")?,
            // Six digits, as ISO 8601 extends years.
            _ => write!(f, "{year:07}")?,
        }
        write!(f, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if millisecond != 0 || f.precision().is_some() {
            write!(f, ".{millisecond:03}")?;
        }
        f.write_str("Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.rfc3339())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let time = Self::from_rfc3339(&text);
        time.ok_or_else(|| D::Error::custom(format!("`{text}` is not an RFC 3339 time")))
    }
}

impl Timestamp {
    /// RFC 3339 with milliseconds. A time outside of the years 0 to 9999 becomes the nearest one.
    pub fn rfc3339(self) -> String {
        let time = DateTime::of(Timestamp(self.0.clamp(YEAR_0, CALENDAR.1)));
        time.map_or_else(String::new, |it| format!("{it:.3}"))
    }

    /// Parses RFC 3339. Without a zone it is UTC; a date is its midnight. `None` outside of the
    /// years 0 to 9999, as [`Self::rfc3339`] would write another time.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let midnight = DateTime::midnight(year, month, day)?;
        if rest.is_empty() {
            return Some(midnight);
        }
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (time, zone) = rest.split_at(zone_at);
        let (time, millis) = match time.split_once('.') {
            None => (time, 0),
            Some((time, digits)) => (time, fraction(digits).filter(|_| time.len() == 8)?),
        };
        let time = time_of_day(time)? + millis;
        let zone = if matches!(zone, "" | "Z" | "z") { 0 } else { offset(zone)? };
        let millis = midnight.0 + time - zone;
        (YEAR_0..=CALENDAR.1).contains(&millis).then_some(Timestamp(millis))
    }

    /// The format of HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`. `None` outside of the calendar.
    pub fn http_date(self) -> Option<String> {
        let DateTime { year, month, day, hour, minute, second, .. } =
            DateTime::of(self).filter(|it| 0 <= it.year)?;
        let weekday = WEEKDAYS[self.0.div_euclid(DAY_MILLIS).rem_euclid(7) as usize];
        let month = MONTHS[month as usize - 1];
        Some(format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT"))
    }

    /// Parses the format of HTTP headers, with any zone of RFC 5322 that has a number.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let text = text.split_once(',').map_or(text, |(_weekday, rest)| rest);
        let mut words = text.split_ascii_whitespace();
        let mut word = || words.next();
        let day = word()?.parse().ok().filter(|it| (1..=31).contains(it))?;
        let month = word()?;
        let month = MONTHS.iter().position(|it| it.eq_ignore_ascii_case(month))? as i64 + 1;
        let [year] = numbers(word()?, '-', [4])?;
        let time = time_of_day(word()?)?;
        let zone = match word()? {
            "GMT" | "UTC" | "UT" | "Z" => 0,
            zone => offset(zone)?,
        };
        let midnight = DateTime::midnight(year, month, day)?;
        words.next().is_none().then(|| Timestamp(midnight.0 + time - zone))
    }
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|it| it.len() == digits)?;
        *number = part.bytes().all(|it| it.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

/// Milliseconds of `08:49` or `08:49:37`. A leap second is the second before it.
fn time_of_day(text: &str) -> Option<i64> {
    let [hour, minute, second] = match text.len() {
        5 => numbers(text, ':', [2, 2]).map(|[hour, minute]| [hour, minute, 0])?,
        _ => numbers(text, ':', [2, 2, 2])?,
    };
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| (hour * 3_600 + minute * 60 + second.min(59)) * 1_000)
}

/// Milliseconds of the digits behind a point.
fn fraction(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| format!("{digits:0<3}")[..3].parse().ok())?
}

/// Milliseconds of a zone such as `+01:00` or `-0730`.
fn offset(zone: &str) -> Option<i64> {
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone = zone.strip_prefix(['+', '-'])?;
    let [hours, minutes] = match zone.len() {
        4 => numbers(zone, ':', [4]).map(|[it]| [it / 100, it % 100])?,
        _ => numbers(zone, ':', [2, 2])?,
    };
    (hours < 24 && minutes < 60).then(|| sign * (hours * 60 + minutes) * 60_000)
}

// Both count in eras of 400 years that begin in March, so that the leap day is the last of a year:
// <https://howardhinnant.github.io/date_algorithms.html>.

/// Days in 400 years, and from the first of March of year 0 until 1970.
const ERA_DAYS: i64 = 146_097;
const DAYS_BEFORE_1970: i64 = 719_468;

/// Days since 1970 until a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    year.div_euclid(400) * ERA_DAYS + day_of_era - DAYS_BEFORE_1970
}

/// Year, month and day, from days since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970;
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (ERA_DAYS - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = days.div_euclid(ERA_DAYS) * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_eras_follows_the_day_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1_599, 1, 1);
        let days_since = |year: i64| (year - 1_970) * 146_097 / 400;
        for count in days(year, month, day)..days_since(2_401) {
            assert_eq!((date(count), days(year, month, day)), ((year, month, day), count));
            let last = match month {
                2 => 28 + i64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn a_time_is_written_as_rfc_3339_and_read_again() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_794_710_096_789, "2026-11-15T02:34:56.789Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(millis).rfc3339(), text);
            assert_eq!(Timestamp::from_rfc3339(text), Some(Timestamp(millis)));
        }
        for (time, text) in [
            (Timestamp::MAX, "9999-12-31T23:59:59.999Z"),
            (Timestamp(CALENDAR.1 + 1), "9999-12-31T23:59:59.999Z"),
            (Timestamp(YEAR_0 - 1), "0000-01-01T00:00:00.000Z"),
            (Timestamp(CALENDAR.0), "0000-01-01T00:00:00.000Z"),
            (Timestamp::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(time.rfc3339(), text, "the nearest time that has a text");
            let written = serde_json::to_string(&time).unwrap();
            let read: Timestamp = serde_json::from_str(&written).unwrap();
            assert_eq!(read.rfc3339(), text);
        }
        assert_eq!(DateTime::of(Timestamp::MAX), None);
        let whole = DateTime::of(Timestamp(1_794_710_096_000)).unwrap();
        assert_eq!(whole.to_string(), "2026-11-15T02:34:56Z");
    }

    #[test]
    fn a_time_is_read_with_or_without_its_zone() {
        let noon = Some(Timestamp(1_794_744_000_000));
        for text in [
            "2026-11-15T12:00:00Z",
            "2026-11-15t12:00:00z",
            "2026-11-15 12:00:00.0001Z",
            "2026-11-15T13:00:00+01:00",
            "2026-11-15T04:30:00.000-0730",
            "2026-11-15T12:00",
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), noon, "{text}");
        }
        assert_eq!(Timestamp::from_rfc3339("2026-11-15"), Some(Timestamp(1_794_700_800_000)));
        let leap = Timestamp::from_rfc3339("2016-12-31T23:59:60Z");
        assert_eq!(leap, Timestamp::from_rfc3339("2016-12-31T23:59:59Z"));
        let tenth = Timestamp::from_rfc3339("1970-01-01T00:00:00.1Z");
        assert_eq!(tenth, Some(Timestamp(100)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026-11",
            "2026-11-31",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-11-00",
            "+026-11-15",
            "2026-11-15T",
            "2026-11-15T24:00",
            "2026-11-15T12:60",
            "2026-11-15T12:00:61",
            "2026-11-15T12:00:00.Z",
            "2026-11-15T12:00.5",
            "2026-11-15T12:00:00.5xZ",
            "2026-11-15T12:00:00+",
            "2026-11-15T12:00:00+1",
            "2026-11-15T12:00:00+24:00",
            "2026-11-15T12:00:00ZZ",
            "2026-11-15X12:00:00Z",
            "2026-11-1\u{e4}",
            "-009999-01-01T00:00:00Z",
            "0000-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_of_http_is_written_and_read_again() {
        let text = "Sun, 06 Nov 1994 08:49:37 GMT";
        let time = Timestamp(784_111_777_000);
        assert_eq!(time.http_date().as_deref(), Some(text));
        for text in [
            text,
            "06 nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 09:49:37 +0100",
        ] {
            assert_eq!(Timestamp::from_http_date(text), Some(time), "{text}");
        }
        for text in [
            "",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
        ] {
            assert_eq!(Timestamp::from_http_date(text), None, "{text}");
        }
        assert_eq!(Timestamp::MIN.http_date(), None);
        assert_eq!(Timestamp(0).http_date().as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    }
}
