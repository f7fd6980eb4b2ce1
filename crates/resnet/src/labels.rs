//! The names of the classes, in a file.

use std::collections::BTreeMap;

/// Reads labels: a JSON list, a JSON object by number, or a text with one in each line.
pub fn parse_labels(bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "labels are not UTF-8".to_owned())?;
    let labels = match text.trim_start().chars().next() {
        Some('[') => serde_json::from_str(text).map_err(|error| format!("labels: {error}"))?,
        Some('{') => numbered(text)?,
        _ => text.lines().map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect(),
    };
    match labels.is_empty() {
        true => Err("there are no labels".into()),
        false => Ok(labels),
    }
}

fn numbered(text: &str) -> Result<Vec<String>, String> {
    let labels: BTreeMap<usize, String> =
        serde_json::from_str(text).map_err(|error| format!("labels: {error}"))?;
    match labels.keys().copied().eq(0..labels.len()) {
        true => Ok(labels.into_values().collect()),
        false => Err("labels must be numbered from 0 without a gap".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_as_a_list_by_number_or_line_by_line() {
        let expected = Ok(vec!["tench".to_owned(), "great_white_shark".to_owned()]);
        for text in [
            r#"["tench", "great_white_shark"]"#,
            r#"{"1": "great_white_shark", "0": "tench"}"#,
            "tench\r\ngreat_white_shark\n\n",
        ] {
            assert_eq!(parse_labels(text.as_bytes()), expected);
        }
    }

    #[test]
    fn labels_with_a_gap_or_none_are_refused() {
        for text in [r#"{"0": "a", "2": "b"}"#, "[]", "", "{}", "[1]", "{\"a\": \"b\"}"] {
            assert!(parse_labels(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse_labels(b"\xff").is_err());
    }
}
