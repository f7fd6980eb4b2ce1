use std::{net::TcpListener, sync::mpsc::Receiver};

use steadfast_fake_http::{Request, response as http, serve};

use super::*;

/// A service that answers each request with these bytes, or with none.
fn server(answer: Option<String>) -> (String, Receiver<Request>) {
    let (address, seen) = serve(move |_| answer.clone()).unwrap();
    (format!("http://{address}/client/v4/"), seen)
}

fn client(base_url: &str) -> WorkersAi {
    let options = WorkersAiOptions {
        base_url: base_url.into(),
        timeout: Duration::from_millis(500),
        ..WorkersAiOptions::new("acc0unt", "s3cret")
    };
    WorkersAi::new(options, ImageLimits::default()).unwrap()
}

fn image(format: image::ImageFormat) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(40, 30, image::Rgb([0, 0, 250]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

async fn asked(answer: Option<String>) -> Result<Vec<Label>, ClassifyError> {
    let (url, _seen) = server(answer);
    client(&url).classify(&image(image::ImageFormat::Jpeg)).await
}

#[tokio::test]
async fn a_service_that_answers_at_all_is_ready_and_one_that_is_away_is_not() {
    let labels = r#"{"result":[{"label":"HEN","score":0.9}],"success":true}"#;
    for (answer, is_ready) in [
        (http("200 OK", labels), true),
        (http("400 Bad Request", r#"{"success":false}"#), true),
        (http("429 Too Many Requests", "{}"), false),
        (http("503 Service Unavailable", "{}"), false),
        (http("401 Unauthorized", "{}"), false),
        (None, false),
    ] {
        let (url, seen) = server(answer.clone());
        let ready = client(&url).ready().await;
        assert_eq!(ready.is_ok(), is_ready, "{answer:?}: {ready:?}");
        let sent = seen.recv().unwrap().body;
        assert!(image::load_from_memory(&sent).is_ok(), "it is asked with a picture");
    }
}

#[tokio::test]
async fn the_image_goes_as_it_is_and_the_labels_come_back_in_order() {
    let body = r#"{"result":[{"label":"Hen","score":0.02},{"label":"COCK","score":0.9},
        {"label":"a","score":0.001},{"label":"b","score":0},{"label":"c","score":0.01},
        {"label":"d","score":0.005}],"success":true,"errors":[],"messages":[]}"#;
    let (url, seen) = server(http("200 OK", body));
    let client = client(&url);
    let jpeg = image(image::ImageFormat::Jpeg);
    let labels = client.classify(&jpeg).await.unwrap();
    let order: Vec<&str> = labels.iter().map(|it| &*it.label).collect();
    assert_eq!(order, ["COCK", "HEN", "C", "D", "A"]);
    assert_eq!(client.name(), "resnet-50 (Workers AI)");
    let Request { head, body } = seen.recv().unwrap();
    let line = "POST /client/v4/accounts/acc0unt/ai/run/@cf/microsoft/resnet-50 HTTP/1.1";
    assert!(head.starts_with(line), "{head}");
    assert!(head.to_lowercase().contains("\r\nauthorization: bearer s3cret\r\n"));
    assert_eq!(body, jpeg);
}

#[tokio::test]
async fn what_the_service_may_not_know_is_sent_as_a_jpeg() {
    let good = r#"{"result":[{"label":"HEN","score":0.5}]}"#;
    for format in [image::ImageFormat::WebP, image::ImageFormat::Gif] {
        let (url, seen) = server(http("200 OK", good));
        client(&url).classify(&image(format)).await.unwrap();
        let body = seen.recv().unwrap().body;
        assert_eq!(ImageFormat::sniff(&body), Ok(ImageFormat::Jpeg));
    }
}

#[tokio::test]
async fn a_broken_image_is_never_sent() {
    let (url, seen) = server(http("200 OK", "{}"));
    let error = client(&url).classify(b"<svg/>").await.unwrap_err();
    assert_eq!(error, ClassifyError::Image(ImageError::Format));
    assert!(seen.try_recv().is_err());
}

#[tokio::test]
async fn nonsense_is_told_from_labels() {
    for body in [
        "",
        "hello",
        "null",
        "[]",
        "{}",
        r#"{"result":[]}"#,
        r#"{"result":null,"success":true}"#,
        r#"{"result":{"label":"HEN","score":0.5}}"#,
        r#"{"result":[{"label":"HEN","score":1.5}]}"#,
        r#"{"result":[{"label":"HEN","score":-0.1}]}"#,
        r#"{"result":[{"label":"HEN","score":null}]}"#,
        r#"{"result":[{"label":"HEN","score":"0.5"}]}"#,
        r#"{"result":[{"label":"HEN","score":1e999}]}"#,
        r#"{"result":[{"label":"","score":0.5}]}"#,
        r#"{"result":[{"label":"a\u0000b","score":0.5}]}"#,
        r#"{"result":[{"score":0.5}]}"#,
        r#"{"result":[{"label":"HEN","score":0.5}],"success":false}"#,
    ] {
        let error = asked(http("200 OK", body)).await.unwrap_err();
        assert_eq!(error.code(), "classifier_answer_invalid", "{body}: {error}");
    }
    let long = asked(http("200 OK", &" ".repeat(2 << 20))).await.unwrap_err();
    assert_eq!(long.code(), "classifier_answer_invalid", "{long}");
    let redirect = "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_owned();
    let elsewhere = asked(Some(redirect)).await.unwrap_err();
    assert_eq!(elsewhere.code(), "classifier_answer_invalid", "{elsewhere}");
}

#[tokio::test]
async fn a_busy_a_silent_and_an_absent_service_may_be_asked_again() {
    for status in ["429 Too Many Requests", "500 Oh", "502 Bad", "503 Busy", "504 Late"] {
        let error = asked(http(status, "<html>")).await.unwrap_err();
        assert_eq!(error.code(), "classifier_unavailable", "{error}");
    }
    let silent = asked(None).await.unwrap_err();
    assert_eq!(silent.code(), "classifier_unavailable", "{silent}");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"result\":[".to_owned();
    let cut = asked(Some(cut)).await.unwrap_err();
    assert_eq!(cut.code(), "classifier_unavailable", "{cut}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent =
        client(&format!("http://{nobody}")).classify(&image(image::ImageFormat::Png)).await;
    assert_eq!(absent.unwrap_err().code(), "classifier_unavailable");
}

#[tokio::test]
async fn a_wrong_token_says_what_to_check_and_never_the_token() {
    let body = r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}]}"#;
    let error = asked(http("401 Unauthorized", body)).await.unwrap_err();
    assert_eq!(error.code(), "model_not_ready");
    let text = error.to_string();
    assert!(text.contains("Authentication error") && text.contains("check account"), "{text}");
    assert!(!format!("{:?}", WorkersAiOptions::new("a", "s3cret")).contains("s3cret"));
}

#[test]
fn options_that_would_lead_elsewhere_are_refused() {
    let good = WorkersAiOptions::new("account", "token");
    for options in [
        WorkersAiOptions { account: "../x".into(), ..good.clone() },
        WorkersAiOptions { account: String::new(), ..good.clone() },
        WorkersAiOptions { token: "a\r\nb: c".into(), ..good.clone() },
        WorkersAiOptions { model: "a?b".into(), ..good.clone() },
        WorkersAiOptions { base_url: "ftp://x".into(), ..good.clone() },
    ] {
        assert!(WorkersAi::new(options, ImageLimits::default()).is_err());
    }
}
