//! Percent-encoding, once or several times.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Texts that are encoded more often than this are nobody's.
pub(super) const LAYERS_MAX: usize = 8;

/// The brackets of what stands in place of a secret stay readable.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'[').remove(b']');

/// The text with one layer taken off.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The text with all layers taken off.
pub(super) fn decoded_wholly(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..LAYERS_MAX {
        let next = decoded(&text);
        if next == text {
            break;
        }
        text = next;
    }
    text
}

/// The text with one layer put on.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A byte of a text without its layers, and where in the text it comes from.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) byte: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The bytes of a text with all layers taken off.
pub(super) fn spots(text: &str) -> Vec<Spot> {
    let at = |(start, byte): (usize, u8)| Spot { byte, start, end: start + 1 };
    let mut spots: Vec<Spot> = text.bytes().enumerate().map(at).collect();
    for _ in 0..LAYERS_MAX {
        let before = spots.len();
        spots = without_layer(&spots);
        if spots.len() == before {
            break;
        }
    }
    spots
}

fn without_layer(spots: &[Spot]) -> Vec<Spot> {
    let digit = |at: usize| char::from(spots.get(at)?.byte).to_digit(16);
    let (mut found, mut at) = (Vec::with_capacity(spots.len()), 0);
    while let Some(spot) = spots.get(at) {
        let escape = digit(at + 1).zip(digit(at + 2)).filter(|_| spot.byte == b'%');
        let byte = escape.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        match byte {
            Some(byte) => {
                found.push(Spot { byte, start: spot.start, end: spots[at + 2].end });
                at += 3;
            }
            None => {
                found.push(*spot);
                at += 1;
            }
        }
    }
    found
}
