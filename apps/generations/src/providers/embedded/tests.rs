use super::*;

fn provider() -> Embedded {
    Embedded::new(Pool::new("test", 2).unwrap())
}

fn request(model: &str, input: Value) -> Request {
    Request { model: model.into(), input: input.as_object().unwrap().clone() }
}

fn task(provider: &Embedded, id: &str, model: &str, input: Value) -> Task {
    let request = request(model, input);
    let Checked { kind, input } = provider.check(&request).unwrap();
    Task { id: id.into(), model: request.model, kind, input, webhook_url: None }
}

async fn output(provider: &Embedded, task: &Task) -> Output {
    let Submitted::Finished(mut outputs) = provider.submit(task).await.unwrap() else {
        panic!("it is done at once")
    };
    assert_eq!(outputs.len(), 1);
    outputs.remove(0)
}

async fn bytes(provider: &Embedded, source: &OutputSource) -> Vec<u8> {
    let mut stream = provider.open(source, 16 << 20).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        assert!(chunk.len() <= 64 << 10);
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(stream.length(), Some(bytes.len() as u64));
    bytes
}

async fn drawn(model: &str, input: Value) -> Vec<u8> {
    let provider = provider();
    let output = output(&provider, &task(&provider, "a task", model, input)).await;
    // As it comes back from storage.
    let stored = serde_json::to_string(&output.source).unwrap();
    bytes(&provider, &serde_json::from_str(&stored).unwrap()).await
}

#[tokio::test]
async fn the_same_prompt_seed_and_size_are_the_same_bytes() {
    for (model, prompt) in [(ART, "silk"), (CLIP, "a lighthouse")] {
        let input = |prompt: &str, seed: u32, width: u32| {
            let height = 64;
            json!({ "positivePrompt": prompt, "seed": seed, "width": width, "height": height })
        };
        let first = drawn(model, input(prompt, 7, 72)).await;
        assert_eq!(first, drawn(model, input(prompt, 7, 72)).await, "{prompt}");
        assert_ne!(first, drawn(model, input(prompt, 8, 72)).await, "{prompt}");
        assert_ne!(first, drawn(model, input(&format!("{prompt}!"), 7, 72)).await, "{prompt}");
        assert_ne!(first, drawn(model, input(prompt, 7, 80)).await, "{prompt}");
        let decoded = image::load_from_memory(&first).unwrap();
        assert_eq!((decoded.width(), decoded.height()), (72, 64));
    }
}

/// A stored drawing is the same picture next year, on every machine. Another picture needs another
/// version.
#[tokio::test]
async fn the_first_version_of_a_model_stays_as_it_is() {
    let pixels = |bytes: &[u8]| {
        let digest = Sha256::digest(image::load_from_memory(bytes).unwrap().to_rgb8().as_raw());
        digest.iter().take(4).map(|it| format!("{it:02x}")).collect::<String>()
    };
    let input = json!({ "positivePrompt": "silk", "seed": 1, "width": 64, "height": 64 });
    assert_eq!(pixels(&drawn(ART, input).await), "ae7636a4");
}

#[tokio::test]
async fn a_picture_has_many_colours_and_no_noise() {
    for prompt in ["hills", "silk"] {
        let input = json!({ "positivePrompt": prompt, "seed": 3, "width": 128, "height": 128 });
        let image = image::load_from_memory(&drawn(ART, input).await).unwrap().to_rgb8();
        let colours: std::collections::HashSet<_> = image.pixels().collect();
        assert!(300 < colours.len(), "{prompt}: {} colours", colours.len());
        // Neighbours are alike; of noise they would be about 85 apart.
        let apart = |row: u32| {
            let byte = |column: u32| i32::from(image.get_pixel(column, row)[1]);
            (1..128).map(|it| (byte(it) - byte(it - 1)).abs()).sum::<i32>()
        };
        let mean = f64::from((0..128).map(apart).sum::<i32>()) / (128.0 * 127.0);
        assert!(mean < 25.0, "{prompt}: neighbours are {mean} apart");
    }
}

#[tokio::test]
async fn a_clip_moves_and_has_few_colours() {
    use image::AnimationDecoder;
    let input = json!({ "positivePrompt": "sea", "width": 64, "height": 80, "duration": 1 });
    let gif = drawn(CLIP, input).await;
    let decoder = image::codecs::gif::GifDecoder::new(std::io::Cursor::new(gif)).unwrap();
    let frames = decoder.into_frames().collect_frames().unwrap();
    assert_eq!(frames.len(), 10);
    assert_ne!(frames[0].buffer(), frames[5].buffer());
    let colours: std::collections::HashSet<_> =
        frames.iter().flat_map(|it| it.buffer().pixels()).collect();
    assert!((8..=40).contains(&colours.len()), "{}", colours.len());
}

#[tokio::test]
async fn it_says_that_it_is_no_ai_model() {
    let provider = provider();
    let task = task(&provider, "id", ART, json!({ "positivePrompt": "a cat" }));
    let output = output(&provider, &task).await;
    assert_eq!(output.raw["method"], json!("procedural, no AI model"));
    assert_eq!((output.cost, output.raw["cost"].as_f64()), (Some(0.0), Some(0.0)));
    assert!(provider.models().iter().all(|it| it.name.contains("no AI model")));
}

#[tokio::test]
async fn a_task_without_a_seed_has_one_of_its_own_and_keeps_it() {
    let provider = provider();
    let seed = async |id: &str| {
        let task = task(&provider, id, ART, json!({ "positivePrompt": "a cat" }));
        output(&provider, &task).await.seed.unwrap()
    };
    assert_eq!(seed("one").await, seed("one").await);
    assert_ne!(seed("one").await, seed("two").await);
}

#[tokio::test]
async fn after_a_crash_it_may_be_asked_again_at_no_cost() {
    let reports = provider().poll(&["one".into(), "two".into()]).await.unwrap();
    assert!(reports.iter().all(|it| it.state == TaskState::Unknown));
    assert_eq!(reports.len(), 2);
    assert!(provider().parse_webhook(b"{}").is_err());
}

#[test]
fn bad_input_is_refused_with_the_field_at_fault() {
    let long = "x".repeat(3_001);
    for (model, input, field) in [
        ("embedded:art@2", json!({ "positivePrompt": "x" }), "model"),
        ("runware:101@1", json!({ "positivePrompt": "x" }), "model"),
        ("", json!({ "positivePrompt": "x" }), "model"),
        (ART, json!({}), "positivePrompt"),
        (ART, json!({ "positivePrompt": null }), "positivePrompt"),
        (ART, json!({ "positivePrompt": " \n" }), "positivePrompt"),
        (ART, json!({ "positivePrompt": 7 }), "positivePrompt"),
        (ART, json!({ "positivePrompt": long }), "positivePrompt"),
        (ART, json!({ "positivePrompt": "x", "width": 63 }), "width"),
        (ART, json!({ "positivePrompt": "x", "height": 2_049 }), "height"),
        (ART, json!({ "positivePrompt": "x", "width": 100.5 }), "width"),
        (ART, json!({ "positivePrompt": "x", "width": "100" }), "width"),
        (CLIP, json!({ "positivePrompt": "x", "width": 513 }), "width"),
        (CLIP, json!({ "positivePrompt": "x", "duration": 4 }), "duration"),
        (ART, json!({ "positivePrompt": "x", "duration": 1 }), "duration"),
        (ART, json!({ "positivePrompt": "x", "seed": -1 }), "seed"),
        (ART, json!({ "positivePrompt": "x", "seed": 9_223_372_036_854_775_808_u64 }), "seed"),
        (ART, json!({ "positivePrompt": "x", "numberResults": 2 }), "numberResults"),
        (ART, json!({ "positivePrompt": "x", "outputFormat": "JPG" }), "outputFormat"),
        (ART, json!({ "positivePrompt": "x", "steps": 20 }), "steps"),
        (ART, json!({ "positivePrompt": "x", "webhookURL": "http://x" }), "webhookURL"),
    ] {
        let error = provider().check(&request(model, input.clone())).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{input}: {error}");
        assert!(!error.is_retryable());
    }
    let full = json!({ "positivePrompt": "x", "seed": 0, "numberResults": 1, "width": 2_048 });
    let checked = provider().check(&request(ART, full)).unwrap();
    assert_eq!(checked.kind, OutputKind::Image);
    let filled = json!({ "positivePrompt": "x", "seed": 0, "width": 2_048, "height": 1_024 });
    assert_eq!(Value::Object(checked.input), filled);
}

#[tokio::test]
async fn a_drawing_from_storage_is_not_trusted() {
    let drawing = Drawing {
        model: ART.into(),
        prompt: "x".into(),
        seed: 1,
        width: 100_000,
        height: 100_000,
        seconds: None,
    };
    let source = OutputSource::Inline { drawing };
    assert_eq!(provider().open(&source, 1).await.unwrap_err().kind, ErrorKind::Input);
    let source = OutputSource::Url { url: "http://127.0.0.1/".into() };
    assert_eq!(provider().open(&source, 1).await.unwrap_err().kind, ErrorKind::OutputAddress);
}
