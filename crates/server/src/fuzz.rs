//! Fuzz targets: cursors of pages.

use steadfast_web::Cursor;

/// A cursor that a client sends.
pub fn cursor(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(cursor) = Cursor::decode(&text) else { return };
    assert_eq!(Cursor::decode(&cursor.encode()).as_ref(), Some(&cursor));
    match cursor {
        Cursor::Position(number) | Cursor::Version(number) | Cursor::Due(_, number) => {
            assert!(0 <= number);
        }
        Cursor::Time(..) => {}
        Cursor::Address(_) | Cursor::Name(_) => {
            assert_eq!(cursor.encode(), text.to_ascii_lowercase());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn cursors_are_read_as_they_are_written() {
        steadfast_mutations::run("cursor", super::cursor, 3_000);
    }
}
