//! Finding the explanation in what a model says.

use serde_json::Value;

use super::explanation::Explanation;

/// How many objects of an answer are looked at.
const OBJECTS_MAX: usize = 32;

/// The explanation in an answer: an object, parts of text, or a text that contains one somewhere.
pub(super) fn explanation(content: &Value) -> Result<Explanation, String> {
    match content {
        Value::Object(_) => checked(content.clone()),
        Value::String(text) => in_text(text),
        Value::Array(parts) => {
            let text: String = parts.iter().filter_map(|it| it.get("text")?.as_str()).collect();
            in_text(&text)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Err("there is no text".to_owned()),
    }
}

fn checked(value: Value) -> Result<Explanation, String> {
    let explanation: Explanation =
        serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
    explanation.checked().map_err(str::to_owned)
}

/// The first object that is one: models think aloud, and wrap their answers in fences.
fn in_text(text: &str) -> Result<Explanation, String> {
    let mut reason = "there is no object".to_owned();
    let mut rest = text;
    for _ in 0..OBJECTS_MAX {
        let Some(start) = rest.find('{') else { break };
        rest = &rest[start..];
        let Some(end) = balanced(rest) else {
            // A brace of prose, or an answer that was cut off.
            reason = "an object does not end".to_owned();
            rest = &rest[1..];
            continue;
        };
        match serde_json::from_str(&rest[..end])
            .map_err(|error| error.to_string())
            .and_then(checked)
        {
            Ok(explanation) => return Ok(explanation),
            Err(error) => reason = error,
        }
        // Braces that are no answer may contain one.
        rest = &rest[1..];
    }
    Err(reason)
}

/// Where the object that begins here ends; braces in strings do not count.
fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"summary":" It \"differs\" {a lot}. ","ranked_causes":[
        {"cause":"b","confidence":0.2,"evidence":["X"]},{"cause":"a","confidence":1}],
        "actions":[{"action":"look","why":"to see"}]}"#;

    #[test]
    fn an_explanation_is_found_wherever_it_is() {
        for text in [
            GOOD.to_owned(),
            format!("```json\n{GOOD}\n```"),
            format!("Sure! Here it is:\n{GOOD}\nI hope {{this}} helps."),
            format!("<think>maybe {{\"summary\": 1}} or {{</think>{GOOD}"),
            format!("{{\"answer\": {GOOD}}}"),
        ] {
            let found = explanation(&Value::String(text.clone())).unwrap();
            assert_eq!(found.summary, "It \"differs\" {a lot}.", "{text}");
            let order: Vec<&str> = found.ranked_causes.iter().map(|it| &*it.cause).collect();
            assert_eq!(order, ["a", "b"]);
        }
        let object: Value = serde_json::from_str(GOOD).unwrap();
        assert!(explanation(&object).is_ok());
        let parts = serde_json::json!([{ "type": "text", "text": GOOD }]);
        assert!(explanation(&parts).is_ok());
    }

    #[test]
    fn nonsense_is_told_from_an_explanation() {
        for text in [
            "",
            "no",
            "{",
            "}{",
            "{}",
            "[]",
            r#"{"summary":"","ranked_causes":[],"actions":[]}"#,
            r#"{"summary":"  ","ranked_causes":[],"actions":[]}"#,
            r#"{"summary":1,"ranked_causes":[],"actions":[]}"#,
            r#"{"summary":"a","actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[]}"#,
            r#"{"summary":"a","ranked_causes":{},"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[{"cause":"b"}],"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[{"cause":"b","confidence":1.1}],"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[{"cause":"b","confidence":-0.1}],"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[{"cause":"b","confidence":"1"}],"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[{"cause":"","confidence":1}],"actions":[]}"#,
            r#"{"summary":"a","ranked_causes":[],"actions":[{"action":"","why":"b"}]}"#,
            r#"{"summary":"a","ranked_causes":[],"actions":["do"]}"#,
            r#"{"summary":"a","ranked_causes":[],"actions":[]"#,
        ] {
            assert!(explanation(&Value::String(text.into())).is_err(), "{text}");
        }
        for value in [Value::Null, Value::Bool(true), serde_json::json!(1), serde_json::json!([])] {
            assert!(explanation(&value).is_err(), "{value}");
        }
        // Many braces cost little.
        assert!(explanation(&Value::String("{".repeat(1 << 20))).is_err());
        assert!(explanation(&Value::String("{\"a\":".repeat(1 << 18))).is_err());
    }

    #[test]
    fn an_explanation_is_brought_into_bounds() {
        let cause = serde_json::json!({ "cause": "a".repeat(5_000), "confidence": 0.5 });
        let value = serde_json::json!({
            "summary": "a\u{0}b",
            "ranked_causes": vec![cause; 50],
            "actions": [],
            "notes": ["", "c"],
        });
        let found = explanation(&value).unwrap();
        assert_eq!((found.summary.as_str(), found.ranked_causes.len()), ("ab", 8));
        assert_eq!(found.ranked_causes[0].cause.len(), 1_000);
        assert_eq!(found.notes, ["c"]);
    }
}
