//! Types of settings.

use clap::builder::{MapValueParser, RangedI64ValueParser, TypedValueParser, ValueParserFactory};

/// A setting that is a number of at least `MIN` and at most `MAX`. The command line refuses others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Number<MIN, MAX> {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The number, as a size in memory.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u32, const MAX: u32> ValueParserFactory for Number<MIN, MAX> {
    type Parser = MapValueParser<RangedI64ValueParser<u32>, fn(u32) -> Self>;

    fn value_parser() -> Self::Parser {
        RangedI64ValueParser::<u32>::from(i64::from(MIN)..=i64::from(MAX)).map(Self)
    }
}
