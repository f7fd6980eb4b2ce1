//! Looking at a request before it costs anything.

use serde_json::{Map, Value, json};

use super::RunwareOptions;
use crate::providers::{
    error::GenerateError,
    input::{SEED_MAX, number, one_result, prompt, text},
    provider::{Checked, OutputKind, Request},
};

/// Bytes of an input. Images go along as addresses rather than as text of megabytes.
const INPUT_BYTES_MAX: usize = 256 << 10;

/// Fields that are ours: they decide where results go and how they come.
const OURS: [&str; 9] = [
    "taskUUID",
    "model",
    "apiKey",
    "webhookURL",
    "uploadEndpoint",
    "deliveryMethod",
    "outputType",
    "includeCost",
    "ttl",
];

/// Fields that only a video has.
const OF_VIDEOS: [&str; 4] = ["duration", "fps", "frameImages", "speech"];

pub(super) fn check(options: &RunwareOptions, request: &Request) -> Result<Checked, GenerateError> {
    let Request { model, input } = request;
    let listed = options.models.iter().find(|it| it.id == *model);
    if !is_air(model) || (options.only_listed && listed.is_none()) {
        return Err(GenerateError::unknown_model(model));
    }
    let kind = kind(listed.map(|it| it.kind), input)?;
    if let Some(field) = OURS.iter().find(|it| input.contains_key(**it)) {
        return Err(GenerateError::input(field, "is not for the input to say"));
    }
    one_result(input)?;
    let is_text_needed = kind == OutputKind::Image
        || !["frameImages", "referenceImages", "inputs"].iter().any(|it| input.contains_key(*it));
    if prompt(input, 2)?.is_none() && is_text_needed {
        return Err(GenerateError::input("positivePrompt", "is missing; say what to make"));
    }
    // Models differ in sizes and steps, so these are the bounds of all of them; Runware knows the
    // ones of each.
    let width = number(input, "width", 64..=16_384)?;
    let height = number(input, "height", 64..=16_384)?;
    number(input, "seed", 1..=SEED_MAX)?;
    format(kind, input)?;
    let mut input = input.clone();
    input.retain(|_, it| !it.is_null());
    for field in ["taskType", "numberResults"] {
        input.remove(field);
    }
    match (width, height, kind) {
        (Some(_), Some(_), _) | (None, None, OutputKind::Video) => {}
        (None, None, OutputKind::Image) => {
            input.insert("width".into(), json!(1_024));
            input.insert("height".into(), json!(1_024));
        }
        (None, Some(_), _) => return Err(GenerateError::input("width", "is missing")),
        (Some(_), None, _) => return Err(GenerateError::input("height", "is missing")),
    }
    let bytes = serde_json::to_vec(&input).map_or(usize::MAX, |it| it.len());
    if INPUT_BYTES_MAX < bytes {
        let message = format!("has {bytes} bytes, limit is {INPUT_BYTES_MAX}");
        return Err(GenerateError::input("input", message));
    }
    Ok(Checked { kind, input })
}

/// The kind of output: by the list, by the input, or by fields that only a video has.
fn kind(
    listed: Option<OutputKind>,
    input: &Map<String, Value>,
) -> Result<OutputKind, GenerateError> {
    let said = match text(input, "taskType")? {
        None => None,
        Some("imageInference") => Some(OutputKind::Image),
        Some("videoInference") => Some(OutputKind::Video),
        Some(_) => {
            let message = "is neither imageInference nor videoInference";
            return Err(GenerateError::input("taskType", message));
        }
    };
    let is_video = OF_VIDEOS.iter().any(|it| input.contains_key(*it));
    let guess = if is_video { OutputKind::Video } else { OutputKind::Image };
    match (listed, said) {
        (Some(listed), Some(said)) if listed != said => {
            let message = format!("is not what this model does; it makes {}s", listed.as_str());
            Err(GenerateError::input("taskType", message))
        }
        _ => Ok(listed.or(said).unwrap_or(guess)),
    }
}

/// Formats that are kept: others would be paid for and then refused.
fn format(kind: OutputKind, input: &Map<String, Value>) -> Result<(), GenerateError> {
    let formats: &[&str] = match kind {
        OutputKind::Image => &["JPG", "PNG", "WEBP"],
        OutputKind::Video => &["MP4", "WEBM"],
    };
    match text(input, "outputFormat")? {
        Some(format) if !formats.contains(&format) => {
            let message = format!("is not one of {}", formats.join(", "));
            Err(GenerateError::input("outputFormat", message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a model is written like one: `source:id@version`.
fn is_air(model: &str) -> bool {
    let is_word = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it))
    };
    let parts =
        model.split_once(':').and_then(|(source, rest)| Some((source, rest.split_once('@')?)));
    let is_whole = parts.is_some_and(|(a, (b, c))| is_word(a) && is_word(b) && is_word(c));
    // The embedded ones are never sent away.
    is_whole && model.len() <= 120 && !model.starts_with("embedded:")
}

/// Whether an id is written like a UUID.
pub(super) fn is_uuid(id: &str) -> bool {
    let is_right = |(index, it): (usize, u8)| match index {
        8 | 13 | 18 | 23 => it == b'-',
        _ => it.is_ascii_hexdigit(),
    };
    id.len() == 36 && id.bytes().enumerate().all(is_right)
}

#[cfg(test)]
mod tests;
