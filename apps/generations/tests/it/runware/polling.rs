use super::*;

#[tokio::test]
async fn a_task_that_was_never_submitted_is_unknown() {
    let world = World::new();
    let task = world.video("a lighthouse");
    assert_eq!(world.poll(&task).await.unwrap(), TaskState::Unknown);
    assert_eq!(world.fake.submissions(&task.id), 0);
}

#[tokio::test]
async fn a_refused_task_is_unknown_and_may_be_submitted_again() {
    let world = World::new();
    let task = world.video("fail:429:1");
    assert!(world.runware.submit(&task).await.unwrap_err().is_retryable());
    assert_eq!(world.poll(&task).await.unwrap(), TaskState::Unknown);
    assert_eq!(world.runware.submit(&task).await.unwrap(), Submitted::Accepted);
    assert_eq!(world.fake.billings(&task.id), 1);
}

#[tokio::test]
async fn what_polls_forgot_is_in_the_records() {
    let world = World::new();
    let task = world.video("forget-response");
    world.runware.submit(&task).await.unwrap();
    let output = finished(world.poll(&task).await.unwrap());
    assert!(url(&output).ends_with(".mp4"));
    let task = world.task(3, json!({ "positivePrompt": "forget" }));
    world.runware.submit(&task).await.unwrap();
    assert_eq!(world.poll(&task).await.unwrap(), TaskState::Unknown);
}

#[tokio::test]
async fn only_records_that_say_so_prove_that_a_task_was_never_taken() {
    for (code, is_retryable) in [
        ("unsupportedTaskType", false),
        ("invalidTaskUUID", false),
        ("insufficientPermissions", false),
        ("taskExpired", false),
        ("somethingNew", false),
        ("rateLimitExceeded", true),
    ] {
        let world = World::new();
        let task = world.image(&format!("picture details:{code}"));
        world.runware.submit(&task).await.unwrap();
        let error = world.poll(&task).await.unwrap_err();
        assert_eq!(error.is_retryable(), is_retryable, "{code}");
        assert!(world.ask_then_submit(&task).await.is_err());
        assert_eq!(world.fake.billings(&task.id), 1, "{code}");
    }
    let world = World::new();
    let task = world.image("picture details-silent");
    world.runware.submit(&task).await.unwrap();
    assert!(world.ask_then_submit(&task).await.unwrap_err().is_retryable());
    assert_eq!(world.fake.billings(&task.id), 1);
}

#[tokio::test]
async fn a_task_that_nothing_is_known_of_does_not_hide_the_others() {
    let world = World::new();
    let (lost, clip) = (world.image("picture details:unsupportedTaskType"), world.video("a clip"));
    for task in [&lost, &clip] {
        world.runware.submit(task).await.unwrap();
    }
    let reports = world.runware.poll(&[lost.id, clip.id]).await.unwrap();
    assert!(matches!(reports[0].state, TaskState::InProgress { .. }));
    assert!(matches!(reports[1].state, TaskState::Finished(_)));
}

#[tokio::test]
async fn several_tasks_are_reported_in_their_order_each_with_its_own_state() {
    let world = World::later();
    let prompts = ["a", "b never-done", "c error:nsfwContentDetected", "d", "e fail:500", "f"];
    let mut tasks = Vec::new();
    for (number, prompt) in prompts.iter().enumerate() {
        let prompt = format!("picture {prompt}");
        let task = world.task(number as u32, json!({ "positivePrompt": prompt }));
        if number != 3 {
            let _ = world.runware.submit(&task).await;
        }
        tasks.push(task.id);
    }
    let reports = world.runware.poll(&tasks).await.unwrap();
    let ids: Vec<String> = reports.iter().map(|it| it.task.clone().unwrap()).collect();
    assert_eq!(ids, tasks);
    let states: Vec<String> = reports
        .into_iter()
        .map(|it| match it.state {
            TaskState::Finished(outputs) => format!("{} done", outputs.len()),
            TaskState::InProgress { .. } => "in progress".into(),
            TaskState::Failed(error) => error.code().into(),
            TaskState::Unknown => "unknown".into(),
        })
        .collect();
    let expected = ["1 done", "in progress", "content_rejected", "unknown", "unknown", "1 done"];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn more_tasks_than_fit_into_one_question_are_all_reported() {
    let world = World::new();
    let tasks: Vec<String> =
        (0..60).map(|it| world.task(it, json!({ "positivePrompt": "xy" })).id).collect();
    let reports = world.runware.poll(&tasks).await.unwrap();
    assert_eq!(reports.len(), 60);
    assert!(world.runware.poll(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_part_of_a_result_is_no_result_yet() {
    let world = World::new();
    let task = world.video("partial");
    world.runware.submit(&task).await.unwrap();
    let TaskState::InProgress { progress, outputs } = world.poll(&task).await.unwrap() else {
        panic!("it is not done")
    };
    assert_eq!((progress, outputs.len()), (Some(80), 1));
    finished(world.poll(&task).await.unwrap());
}

#[tokio::test]
async fn by_the_documented_question_a_lost_answer_is_found_and_nothing_else_is_asked() {
    let world = World::with(|it| RunwareOptions {
        image_delivery: Delivery::Async,
        reconcile: Reconcile::Response,
        ..it
    });
    // A request for the details would end in this refusal.
    let task = world.image("drop-answer details:unauthorized");
    assert_eq!(world.poll(&task).await.unwrap(), TaskState::Unknown, "it was never taken");
    world.runware.submit(&task).await.unwrap_err();
    for _ in 0..2 {
        assert!(world.ask_then_submit(&task).await.unwrap().is_some());
    }
    assert_eq!((world.fake.submissions(&task.id), world.fake.billings(&task.id)), (1, 1));
    let lost = world.task(7, json!({ "positivePrompt": "fail:503:1 details:unauthorized" }));
    world.runware.submit(&lost).await.unwrap_err();
    assert_eq!(world.poll(&lost).await.unwrap(), TaskState::Unknown);
    // An expired task was taken: it is not made and billed again.
    let prompt = json!({ "positivePrompt": "drop-answer expire-response" });
    let expired = world.task(8, prompt);
    world.runware.submit(&expired).await.unwrap_err();
    let state = world.poll(&expired).await.unwrap();
    assert!(matches!(state, TaskState::Failed(_)), "{state:?}");
    let defaults = RunwareOptions::new("key");
    assert_eq!(defaults.reconcile, Reconcile::Response);
    assert_eq!(defaults.image_delivery, Delivery::Async);
}
