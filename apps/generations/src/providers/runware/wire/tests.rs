use serde_json::json;

use super::*;
use crate::providers::ErrorKind;

fn states(body: Value) -> Vec<Report> {
    let answer = Answer::parse(200, None, body.to_string().as_bytes()).unwrap();
    reports(&answer)
}

#[test]
fn the_acknowledgement_of_a_key_is_no_result() {
    let body = json!({ "data": [
        { "taskType": "authentication", "connectionSessionUUID": "x" },
        { "taskType": "imageInference", "taskUUID": "t", "imageUUID": "i",
          "imageURL": "https://im.runware.ai/image/ws/0.5/ii/a.jpg?x=1.png", "seed": 5,
          "cost": 0.0013, "NSFWContent": false },
    ] });
    let reports = states(body);
    assert_eq!(reports.len(), 1);
    let TaskState::Finished(outputs) = &reports[0].state else { panic!("it is done") };
    assert_eq!(outputs[0].content_type.as_deref(), Some("image/jpeg"));
    assert_eq!((outputs[0].seed, outputs[0].cost), (Some(5), Some(0.0013)));
    assert_eq!(outputs[0].raw["NSFWContent"], json!(false));
}

#[test]
fn results_and_errors_belong_to_their_tasks() {
    let url = |it: &str| format!("https://vm.runware.ai/{it}.mp4");
    let reports = states(json!({
        "data": [
            { "taskType": "videoInference", "taskUUID": "a", "videoURL": url("1") },
            { "taskType": "videoInference", "taskUUID": "b" },
            { "taskType": "videoInference", "taskUUID": "c", "status": "processing" },
            { "taskType": "videoInference", "taskUUID": "c", "mediaURL": url("2") },
            { "taskType": "videoInference", "taskUUID": "d", "videoURL": url("3") },
        ],
        "errors": [
            { "code": "timeoutProvider", "taskUUID": "d", "message": "late" },
            { "code": "insufficientCredits", "taskUUID": "e" },
            { "code": "invalidApiKey" },
        ],
    }));
    let kinds: Vec<(Option<&str>, String)> = reports
        .iter()
        .map(|it| {
            let state = match &it.state {
                TaskState::Finished(outputs) => format!("{} done", outputs.len()),
                TaskState::InProgress { outputs, .. } => format!("{} so far", outputs.len()),
                TaskState::Failed(error) => error.code().to_owned(),
                TaskState::Unknown => "unknown".to_owned(),
            };
            (it.task.as_deref(), state)
        })
        .collect();
    let expected = [
        (Some("a"), "1 done"),
        (Some("b"), "0 so far"),
        (Some("c"), "1 so far"),
        (Some("d"), "1 done"),
        (Some("e"), "provider_credits_insufficient"),
        (None, "provider_unauthorized"),
    ];
    let expected: Vec<_> = expected.map(|(task, state)| (task, state.to_owned())).into();
    assert_eq!(kinds, expected);
    assert!(reports[5].concerns("anything") && !reports[0].concerns("b"));
    assert!(reports[0].concerns("A"));
}

#[test]
fn an_error_that_comes_alone_is_an_error() {
    let reports = states(json!({ "error": { "code": "inferenceError" }, "taskUUID": "t" }));
    assert_eq!(reports[0].task.as_deref(), Some("t"));
    assert!(matches!(&reports[0].state, TaskState::Failed(it) if it.is_retryable()));
}

#[test]
fn what_is_not_of_the_protocol_is_an_error_of_its_status() {
    for body in ["", "hello", "null", "[]", "{}", "7", r#"{"data":{}}"#, r#"{"error":"x"}"#] {
        let kind = |status| Answer::parse(status, None, body.as_bytes()).unwrap_err().kind;
        assert_eq!(kind(200), ErrorKind::Answer, "{body}");
        assert_eq!(kind(503), ErrorKind::Unavailable, "{body}");
    }
    assert!(states(json!({ "data": [] })).is_empty());
    assert!(states(json!({ "data": [7, null, "x"] })).is_empty());
}

#[test]
fn recorded_answers_are_read_in_whatever_shape_they_have() {
    let element = json!({ "taskUUID": "t", "imageURL": "https://im.runware.ai/a.png" });
    for response in [json!({ "data": [element] }), json!([element]), element.clone()] {
        let body = json!({ "data": [{ "taskUUID": "T", "response": response }] });
        let answer = Answer::parse(200, None, body.to_string().as_bytes()).unwrap();
        let inner = reports(&answer.details("t").unwrap());
        assert!(matches!(inner[0].state, TaskState::Finished(_)), "{body}");
        assert!(answer.details("other").is_none());
    }
}

#[test]
fn an_answer_of_megabytes_is_read_in_one_pass() {
    // Comparing each task with all others would take minutes.
    let data: Vec<Value> = (0..100_000).map(|it| json!({ "taskUUID": it.to_string() })).collect();
    assert_eq!(states(json!({ "data": data })).len(), 100_000);
}
