use std::{net::TcpListener, sync::mpsc::Receiver};

use steadfast_fake_http::{Request, response as http, serve};

use super::{
    super::summary::tests::{finding, summary},
    *,
};
use crate::diff::Severity;

/// A service that answers each request with these bytes, or with none.
fn server(answer: Option<String>) -> (String, Receiver<Request>) {
    serving(move |_| answer.clone())
}

/// A service that answers each request by its body.
fn serving(
    answer: impl Fn(&Value) -> Option<String> + Send + 'static,
) -> (String, Receiver<Request>) {
    let (address, seen) = serve(move |request| answer(&json_of(request))).unwrap();
    (format!("http://{address}/v1/"), seen)
}

fn json_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn client(base_url: &str, timeout: Duration) -> Chat {
    let options =
        ChatOptions { timeout, ..ChatOptions::new(base_url, Some("s3cret"), "@cf/meta/llama") };
    Chat::new(options).unwrap()
}

async fn asked(answer: Option<String>) -> Result<Explanation, ExplainError> {
    let timeout = Duration::from_millis(if answer.is_some() { 20_000 } else { 300 });
    let (url, _seen) = server(answer);
    client(&url, timeout).explain(&summary(Vec::new())).await
}

const GOOD: &str = r#"{"summary":"It differs.","ranked_causes":[],"actions":[]}"#;

fn said(content: Value) -> String {
    json!({ "choices": [{ "message": { "role": "assistant", "content": content } }] }).to_string()
}

#[tokio::test]
async fn the_findings_go_out_without_secrets_and_the_explanation_comes_back() {
    let fenced = format!("```json\n{GOOD}\n```");
    let (url, seen) = server(http("200 OK", &said(json!(fenced))));
    let client = client(&url, Duration::from_secs(20));
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let input = summary(vec![finding("STATUS_MISMATCH", Severity::Critical, token, "503")]);
    assert_eq!(client.explain(&input).await.unwrap().summary, "It differs.");
    assert_eq!(client.name(), "llama (chat API)");
    let request = seen.recv().unwrap();
    let (head, body) = (&request.head, json_of(&request));
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains("\r\nauthorization: bearer s3cret\r\n"));
    assert_eq!(body["model"], "@cf/meta/llama");
    assert_eq!(body["messages"][0]["role"], "system");
    let user = body["messages"][1]["content"].as_str().unwrap();
    assert!(user.contains("STATUS_MISMATCH") && user.contains("503"), "{user}");
    assert!(!user.contains(token) && user.contains("[masked]"), "{user}");
}

#[tokio::test]
async fn envelopes_of_several_services_are_opened() {
    let object: Value = serde_json::from_str(GOOD).unwrap();
    for body in [
        said(json!(GOOD)),
        said(object.clone()),
        said(json!([{ "type": "text", "text": GOOD }])),
        json!({ "result": { "response": GOOD } }).to_string(),
        json!({ "response": object }).to_string(),
    ] {
        assert!(asked(http("200 OK", &body)).await.is_ok(), "{body}");
    }
}

#[tokio::test]
async fn nonsense_may_be_asked_again() {
    for body in [
        String::new(),
        "hello".into(),
        "null".into(),
        "{}".into(),
        r#"{"choices":[]}"#.into(),
        said(Value::Null),
        said(json!("")),
        said(json!("I cannot help with that.")),
        said(json!("{\"summary\":")),
        " ".repeat(2 << 20),
    ] {
        let error = asked(http("200 OK", &body)).await.unwrap_err();
        assert_eq!(error.code(), "explainer_answer_invalid", "{error}");
        assert!(error.is_worth_a_retry());
    }
}

#[tokio::test]
async fn a_busy_a_silent_and_an_absent_service_may_be_asked_again() {
    let mut errors = Vec::new();
    for status in ["408 Late", "429 Slow Down", "500 Oh", "503 Busy"] {
        errors.push(asked(http(status, "<html>")).await.unwrap_err());
    }
    errors.push(asked(None).await.unwrap_err());
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"choices\":[".to_owned();
    errors.push(asked(Some(cut)).await.unwrap_err());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent = client(&format!("http://{nobody}"), Duration::from_secs(20));
    errors.push(absent.explain(&summary(Vec::new())).await.unwrap_err());
    for error in errors {
        assert_eq!(error.code(), "explainer_unavailable", "{error}");
        assert!(error.is_worth_a_retry());
    }
}

/// Names of the parameters of a request that not every model takes.
fn parameters(request: &Request) -> Vec<&'static str> {
    let body = json_of(request);
    let names = ["max_tokens", "max_completion_tokens", "temperature"];
    names.into_iter().filter(|it| body.get(it).is_some()).collect()
}

#[tokio::test]
async fn a_model_that_refuses_a_parameter_is_asked_without_it() {
    let unsupported = |name: &str, with_param: bool| {
        let message = format!("Unsupported parameter: '{name}' is not supported with this model.");
        let param = if with_param { json!(name) } else { Value::Null };
        json!({ "error": { "message": message, "param": param } }).to_string()
    };
    for (refused, last) in [
        (&["temperature"][..], &["max_tokens"][..]),
        (&["max_tokens"], &["max_completion_tokens", "temperature"]),
        (&["temperature", "max_tokens"], &["max_completion_tokens"]),
        (&["temperature", "max_tokens", "max_completion_tokens"], &[]),
    ] {
        for (status, with_param) in [("400 Bad", true), ("422 No", false)] {
            let (url, seen) = serving(move |body| {
                let name = refused.iter().find(|it| body.get(**it).is_some());
                match name {
                    Some(name) => http(status, &unsupported(name, with_param)),
                    None => http("200 OK", &said(json!(GOOD))),
                }
            });
            let client = client(&url, Duration::from_secs(20));
            client.explain(&summary(Vec::new())).await.unwrap();
            client.explain(&summary(Vec::new())).await.unwrap();
            let asked: Vec<Request> = seen.try_iter().collect();
            assert_eq!(parameters(&asked[0]), ["max_tokens", "temperature"]);
            assert_eq!(parameters(&asked[asked.len() - 2]), last, "{refused:?}");
            // The second time it is known.
            assert_eq!(asked.len(), refused.len() + 2, "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_says_what_to_check_and_never_the_key() {
    let body = r#"{"error":{"message":"Incorrect API key","type":"x"}}"#;
    for status in ["400 Bad", "401 Who", "403 No", "404 Where", "302 Found"] {
        let error = asked(http(status, body)).await.unwrap_err();
        assert_eq!(error.code(), "explainer_refused", "{error}");
        assert!(!error.is_worth_a_retry());
        let text = error.to_string();
        assert!(text.contains("Incorrect API key") && text.contains("check address"), "{text}");
        assert!(!text.contains("s3cret"));
    }
    let options = ChatOptions::new("https://a.example", Some("s3cret"), "m");
    assert!(!format!("{options:?}").contains("s3cret"));
}

#[test]
fn options_that_cannot_be_right_are_refused() {
    for (base_url, key, model) in [
        ("ftp://a", None, "m"),
        ("", None, "m"),
        ("https://a b", None, "m"),
        ("https://u:p@a", None, "m"),
        ("https://a?x=", None, "m"),
        ("https://a", Some(""), "m"),
        ("https://a", Some("a\r\nb: c"), "m"),
        ("https://a", None, ""),
    ] {
        let options = ChatOptions::new(base_url, key, model);
        assert!(Chat::new(options).is_err(), "{base_url} {key:?} {model}");
    }
}
