use super::*;
use crate::providers::provider::Model;

fn checked(model: &str, input: Value) -> Result<Checked, GenerateError> {
    checked_by(&RunwareOptions::new("key"), model, input)
}

fn checked_by(
    options: &RunwareOptions,
    model: &str,
    input: Value,
) -> Result<Checked, GenerateError> {
    let input = input.as_object().unwrap().clone();
    check(options, &Request { model: model.into(), input })
}

#[test]
fn what_was_left_out_is_filled_in_and_the_rest_goes_on() {
    let input = json!({
        "positivePrompt": "a cat", "numberResults": 1, "taskType": "imageInference",
        "seed": null, "steps": 20, "lora": [{ "model": "civitai:1@2", "weight": 1 }],
    });
    let Checked { kind, input } = checked("runware:101@1", input).unwrap();
    assert_eq!(kind, OutputKind::Image);
    let expected = json!({
        "positivePrompt": "a cat", "width": 1_024, "height": 1_024, "steps": 20,
        "lora": [{ "model": "civitai:1@2", "weight": 1 }],
    });
    assert_eq!(Value::Object(input), expected);
}

#[test]
fn a_video_is_known_by_its_model_its_type_or_what_only_videos_have() {
    let kind = |input| checked("klingai:5@3", input).unwrap().kind;
    assert_eq!(kind(json!({ "positivePrompt": "xy" })), OutputKind::Image);
    assert_eq!(kind(json!({ "positivePrompt": "xy", "duration": 5 })), OutputKind::Video);
    assert_eq!(kind(json!({ "frameImages": [] })), OutputKind::Video);
    let said = json!({ "positivePrompt": "xy", "taskType": "videoInference" });
    assert_eq!(kind(said.clone()), OutputKind::Video);
    let model = Model { id: "google:3@0".into(), name: "Veo".into(), kind: OutputKind::Video };
    let options =
        RunwareOptions { models: vec![model], only_listed: true, ..RunwareOptions::new("key") };
    let listed = checked_by(&options, "google:3@0", json!({ "positivePrompt": "xy" }));
    assert_eq!(listed.unwrap().kind, OutputKind::Video);
    let other = checked_by(&options, "runware:101@1", said).unwrap_err();
    assert_eq!(other.code(), "model_unknown");
    let input = json!({ "positivePrompt": "xy", "taskType": "imageInference" });
    let error = checked_by(&options, "google:3@0", input).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("taskType"));
}

#[test]
fn bad_input_is_refused_before_it_costs_anything() {
    let good = "runware:101@1";
    for (model, input, field) in [
        ("", json!({ "positivePrompt": "xy" }), "model"),
        ("flux", json!({ "positivePrompt": "xy" }), "model"),
        ("embedded:art@1", json!({ "positivePrompt": "xy" }), "model"),
        ("a:b@c d", json!({ "positivePrompt": "xy" }), "model"),
        (good, json!({}), "positivePrompt"),
        (good, json!({ "positivePrompt": "" }), "positivePrompt"),
        (good, json!({ "positivePrompt": "x" }), "positivePrompt"),
        (good, json!({ "positivePrompt": "x".repeat(3_001) }), "positivePrompt"),
        (good, json!({ "positivePrompt": "xy", "negativePrompt": 1 }), "negativePrompt"),
        (good, json!({ "positivePrompt": "xy", "width": 512 }), "height"),
        (good, json!({ "positivePrompt": "xy", "height": 512 }), "width"),
        (good, json!({ "positivePrompt": "xy", "width": 1, "height": 512 }), "width"),
        (good, json!({ "positivePrompt": "xy", "seed": 0 }), "seed"),
        (good, json!({ "positivePrompt": "xy", "numberResults": 4 }), "numberResults"),
        (good, json!({ "positivePrompt": "xy", "outputFormat": "SVG" }), "outputFormat"),
        (good, json!({ "positivePrompt": "xy", "taskType": "upscale" }), "taskType"),
        (good, json!({ "positivePrompt": "xy", "uploadEndpoint": "http://x" }), "uploadEndpoint"),
        (good, json!({ "positivePrompt": "xy", "webhookURL": "http://x" }), "webhookURL"),
        (good, json!({ "positivePrompt": "xy", "seedImage": "x".repeat(300_000) }), "input"),
    ] {
        let error = checked(model, input.clone()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{model} {input}: {error}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn ids_of_tasks_are_uuids() {
    assert!(is_uuid("0d6a1c52-7b1f-4a57-9a0e-000000000001"));
    for other in ["", "0d6a1c527b1f4a579a0e000000000001", "0d6a1c52-7b1f-4a57-9a0e-00000000000g"] {
        assert!(!is_uuid(other));
    }
}
