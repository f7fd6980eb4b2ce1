use std::time::Duration;

use super::*;

#[tokio::test]
async fn an_image_comes_with_the_answer_with_its_seed_and_its_cost() {
    let world = World::new();
    let input = json!({ "positivePrompt": "a lighthouse", "seed": 7, "outputFormat": "PNG" });
    let task = world.task(1, input);
    let output = one(world.runware.submit(&task).await.unwrap());
    assert_eq!((output.seed, output.cost), (Some(7), Some(0.0013)));
    assert_eq!(output.content_type.as_deref(), Some("image/png"));
    assert_eq!(output.raw["taskUUID"], json!(task.id));
    assert!(output.id.is_some() && url(&output).ends_with(".png"));
    assert_eq!(world.fake.billings(&task.id), 1);
}

#[tokio::test]
async fn a_video_is_taken_and_comes_later() {
    let world = World::new();
    let task = world.video("a lighthouse polls:2");
    assert_eq!(world.runware.submit(&task).await.unwrap(), Submitted::Accepted);
    for _ in 0..2 {
        let state = world.poll(&task).await.unwrap();
        assert_eq!(state, TaskState::InProgress { progress: Some(50), outputs: Vec::new() });
    }
    let output = finished(world.poll(&task).await.unwrap());
    assert_eq!(output.content_type.as_deref(), Some("video/mp4"));
    assert_eq!(world.fake.billings(&task.id), 1);
}

#[tokio::test]
async fn a_task_that_is_taken_without_a_word_is_taken() {
    let world = World::later();
    let task = world.image("taken-silently");
    assert_eq!(world.runware.submit(&task).await.unwrap(), Submitted::Accepted);
    finished(world.poll(&task).await.unwrap());
}

#[tokio::test]
async fn a_running_task_that_is_submitted_again_is_found_and_not_billed_again() {
    let world = World::new();
    let task = world.video("never-done");
    for _ in 0..3 {
        assert_eq!(world.runware.submit(&task).await.unwrap(), Submitted::Accepted);
    }
    assert_eq!((world.fake.submissions(&task.id), world.fake.billings(&task.id)), (3, 1));
}

#[tokio::test]
async fn statuses_say_what_may_be_tried_again() {
    let world = World::new();
    for (number, (status, code, is_retryable)) in [
        (400, "generation_input_invalid", false),
        (401, "provider_unauthorized", false),
        (402, "provider_credits_insufficient", false),
        (429, "provider_rate_limited", true),
        (500, "provider_unavailable", true),
        (502, "provider_unavailable", true),
        (503, "provider_unavailable", true),
        (504, "provider_timeout", true),
    ]
    .into_iter()
    .enumerate()
    {
        let prompt = format!("fail:{status}");
        let task = world.task(number as u32, json!({ "positivePrompt": prompt }));
        let error = world.runware.submit(&task).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, is_retryable), "{error}");
        assert_eq!(error.retry_after, (status == 429).then_some(Duration::from_secs(7)));
        assert_eq!(world.fake.billings(&task.id), 0);
    }
}

#[tokio::test]
async fn a_provider_says_how_long_to_wait_in_seconds_or_as_a_time() {
    let world = World::new();
    for (number, (prompt, seconds)) in [
        ("fail:429 wait:30", Some(30)),
        ("fail:429 wait-until:45", Some(45)),
        ("fail:429 wait:soon", None),
        ("fail:503 wait:9", Some(9)),
        ("fail:503 wait-until:09", Some(9)),
        ("fail:503", None),
    ]
    .into_iter()
    .enumerate()
    {
        let task = world.task(number as u32, json!({ "positivePrompt": prompt }));
        let error = world.runware.submit(&task).await.unwrap_err();
        assert_eq!(error.retry_after, seconds.map(Duration::from_secs), "{prompt}");
        assert!(error.is_retryable(), "{prompt}");
    }
}

#[tokio::test]
async fn errors_of_a_task_keep_what_the_provider_said() {
    let world = World::new();
    for (number, (code, ours)) in [
        ("nsfwContentDetected", "content_rejected"),
        ("insufficientCredits", "provider_credits_insufficient"),
        ("modelNotFound", "model_unknown"),
        ("timeoutProvider", "provider_timeout"),
        ("inferenceError", "provider_unavailable"),
        ("invalidPositivePrompt", "generation_input_invalid"),
    ]
    .into_iter()
    .enumerate()
    {
        let prompt = format!("error:{code}");
        let task = world.task(number as u32, json!({ "positivePrompt": prompt }));
        let error = world.runware.submit(&task).await.unwrap_err();
        assert_eq!(error.code(), ours, "{error}");
        assert_eq!(error.field.as_deref(), Some("positivePrompt"));
        assert_eq!(error.raw.unwrap()["code"], json!(code));
        assert_eq!(world.fake.billings(&task.id), 0);
    }
}

#[tokio::test]
async fn a_lost_answer_is_found_again_and_never_billed_twice() {
    for (prompt, code) in [
        ("drop-answer", "provider_unavailable"),
        ("hang", "provider_timeout"),
        ("nonsense", "provider_answer_invalid"),
        ("huge-answer", "provider_answer_invalid"),
    ] {
        for world in [World::new(), World::later()] {
            let task = world.image(prompt);
            let error = world.ask_then_submit(&task).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert_eq!(error.code(), code, "{error}");
            let output = world.ask_then_submit(&task).await.unwrap();
            assert!(output.is_some(), "{prompt}");
            let counts = (world.fake.submissions(&task.id), world.fake.billings(&task.id));
            assert_eq!(counts, (1, 1), "{prompt}");
        }
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_until_it_takes_the_task_once() {
    let world = World::new();
    let task = world.image("fail:503:3");
    for _ in 0..3 {
        assert!(world.ask_then_submit(&task).await.unwrap_err().is_retryable());
    }
    for _ in 0..3 {
        assert!(world.ask_then_submit(&task).await.unwrap().is_some());
    }
    assert_eq!((world.fake.submissions(&task.id), world.fake.billings(&task.id)), (4, 1));
}

#[tokio::test]
async fn a_wrong_key_and_an_absent_service_are_told_apart() {
    let world = World::with(|it| RunwareOptions { api_key: "s3cret".into(), ..it });
    let task = world.image("a lighthouse");
    let error = world.runware.submit(&task).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("provider_unauthorized", false));
    // A question that is refused says nothing about the task.
    let error = world.poll(&task).await.unwrap_err();
    assert_eq!(error.code(), "provider_unauthorized");
    assert!(!format!("{:?} {error:?}", world.runware).contains("s3cret"));

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = World::with(|it| RunwareOptions { base_url: format!("http://{nobody}"), ..it });
    let error = world.runware.submit(&task).await.unwrap_err();
    assert_eq!(error.code(), "provider_unavailable");
    assert!(error.is_retryable());
}
