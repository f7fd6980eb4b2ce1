//! Reading fields of an input, in Runware's names.

use serde_json::{Map, Value};

use super::error::GenerateError;

/// Characters of a prompt, as Runware has it.
pub(crate) const PROMPT_CHARS_MAX: usize = 3_000;

/// Seeds fit into a signed integer of 64 bits, as databases and Runware have them.
pub(crate) const SEED_MAX: u64 = i64::MAX as u64;

/// The text of a field, if it is there.
pub(crate) fn text<'a>(
    input: &'a Map<String, Value>,
    field: &str,
) -> Result<Option<&'a str>, GenerateError> {
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(GenerateError::input(field, "is no text")),
    }
}

/// A whole number of a field within bounds, if it is there.
pub(crate) fn number(
    input: &Map<String, Value>,
    field: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, GenerateError> {
    let wrong = || {
        let (least, most) = (bounds.start(), bounds.end());
        GenerateError::input(field, format!("is no whole number from {least} to {most}"))
    };
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(it) => {
            let number = it.as_u64().filter(|it| bounds.contains(it));
            number.map(Some).ok_or_else(wrong)
        }
    }
}

/// The prompt, if there is one: not empty and not too long.
pub(crate) fn prompt(
    input: &Map<String, Value>,
    chars_min: usize,
) -> Result<Option<&str>, GenerateError> {
    for field in ["positivePrompt", "negativePrompt"] {
        let chars = text(input, field)?.map_or(0, |it| it.chars().count());
        if PROMPT_CHARS_MAX < chars {
            let message = format!("has {chars} characters, limit is {PROMPT_CHARS_MAX}");
            return Err(GenerateError::input(field, message));
        }
    }
    let prompt = text(input, "positivePrompt")?;
    match prompt.map(|it| it.trim().chars().count()) {
        Some(0) => Err(GenerateError::input("positivePrompt", "is empty; say what to make")),
        Some(chars) if chars < chars_min => {
            let message = format!("has less than {chars_min} characters");
            Err(GenerateError::input("positivePrompt", message))
        }
        Some(_) | None => Ok(prompt),
    }
}

/// One task has one result: several are several tasks, each stored and paid by itself.
pub(crate) fn one_result(input: &Map<String, Value>) -> Result<(), GenerateError> {
    number(input, "numberResults", 1..=1).map(|_| ())
}
