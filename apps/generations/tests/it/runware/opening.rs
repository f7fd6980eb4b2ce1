use steadfast_generations::providers::{FetchOptions, MediaKind};

use super::*;

const MEBI: u64 = 1 << 20;

/// Submits an image with this prompt and opens what came of it.
async fn open(world: &World, prompt: &str, max: u64) -> Result<OutputStream, GenerateError> {
    let output = one(world.runware.submit(&world.image(prompt)).await.unwrap());
    world.runware.open(&output.source, max).await
}

async fn code(prompt: &str) -> &'static str {
    match open(&World::new(), prompt, MEBI).await {
        Ok(mut stream) => read(&mut stream).await.expect_err(prompt).code(),
        Err(error) => error.code(),
    }
}

#[tokio::test]
async fn an_output_is_what_its_bytes_say_and_not_what_its_header_says() {
    let world = World::new();
    let mut stream = open(&world, "a lighthouse", MEBI).await.unwrap();
    assert_eq!(stream.media(), MediaKind::Png);
    let (bytes, _) = read(&mut stream).await.unwrap();
    assert_eq!(stream.length(), Some(bytes.len() as u64));

    let task = world.video("a lighthouse");
    world.runware.submit(&task).await.unwrap();
    let output = finished(world.poll(&task).await.unwrap());
    let stream = world.runware.open(&output.source, MEBI).await.unwrap();
    assert_eq!(stream.media(), MediaKind::Mp4);
    assert_eq!(code("wrong-content").await, "output_content_invalid");
}

#[tokio::test]
async fn drops_are_waited_for_and_silence_is_not() {
    let world = World::new();
    let mut slow = open(&world, "slow", MEBI).await.unwrap();
    let length = slow.length().unwrap();
    assert_eq!(read(&mut slow).await.unwrap().0.len() as u64, length);
    assert_eq!(code("stall").await, "provider_timeout");
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_error_and_not_an_end() {
    assert_eq!(code("cut").await, "provider_unavailable");
}

#[tokio::test]
async fn more_bytes_than_allowed_are_never_read() {
    assert_eq!(code("huge-length").await, "output_too_large");
    let mut stream = open(&World::new(), "huge", MEBI).await.unwrap();
    let (mut sum, mut error) = (0, None);
    while error.is_none() {
        match stream.chunk().await {
            Ok(chunk) => sum += chunk.expect("it has no end").len() as u64,
            Err(it) => error = Some(it),
        }
    }
    assert_eq!(error.unwrap().code(), "output_too_large");
    assert!(sum <= MEBI);
    assert_eq!(stream.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn an_output_that_is_gone_is_not_tried_again() {
    assert_eq!(code("gone").await, "output_gone");
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_never_to_where_nobody_may_look() {
    let world = World::new();
    assert_eq!(open(&world, "redirect-once", MEBI).await.unwrap().media(), MediaKind::Png);
    for prompt in ["redirect-loop", "redirect-private", "redirect-metadata", "redirect-scheme"] {
        assert_eq!(code(prompt).await, "output_address_refused", "{prompt}");
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let strict = |it: RunwareOptions| RunwareOptions { fetch: FetchOptions::default(), ..it };
    let world = World::with(strict);
    let here = one(world.runware.submit(&world.image("a lighthouse")).await.unwrap());
    let port = world.fake.url().rsplit(':').next().unwrap().replace("/v1", "");
    for url in [
        url(&here).to_owned(),
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://0.0.0.0/".into(),
        "http://10.0.0.1/".into(),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://1.1.1.1:22/".into(),
        "http://user:word@1.1.1.1/".into(),
        "ftp://1.1.1.1/".into(),
        "file:///etc/passwd".into(),
        "/etc/passwd".into(),
        String::new(),
        "http://".into(),
    ] {
        let source = OutputSource::Url { url: url.clone() };
        let error = world.runware.open(&source, MEBI).await.unwrap_err();
        assert_eq!(error.code(), "output_address_refused", "{url}: {error}");
    }
}

#[tokio::test]
async fn only_hosts_that_are_listed_are_asked() {
    let world = World::with(|it| {
        let fetch = FetchOptions { hosts: vec!["runware.ai".into()], ..it.fetch };
        RunwareOptions { fetch, ..it }
    });
    for url in ["http://127.0.0.1/", "http://evilrunware.ai/", "http://runware.ai.evil.com/"] {
        let source = OutputSource::Url { url: url.into() };
        let error = world.runware.open(&source, MEBI).await.unwrap_err();
        assert_eq!(error.code(), "output_address_refused", "{url}");
        assert!(error.message.contains("is not one of the hosts"), "{error}");
    }
}

#[tokio::test]
async fn whoever_drops_a_stream_frees_its_place() {
    let world = World::with(|it| {
        let fetch = FetchOptions { concurrent: 1, ..it.fetch };
        RunwareOptions { fetch, ..it }
    });
    for _ in 0..3 {
        drop(open(&world, "huge", 1 << 40).await.unwrap());
    }
    let source = OutputSource::Inline { drawing: drawing() };
    let error = world.runware.open(&source, MEBI).await.unwrap_err();
    assert_eq!(error.code(), "output_address_refused");
}

fn drawing() -> steadfast_generations::providers::Drawing {
    steadfast_generations::providers::Drawing {
        model: "embedded:art@1".into(),
        prompt: "a lighthouse".into(),
        seed: 1,
        width: 64,
        height: 64,
        seconds: None,
    }
}
