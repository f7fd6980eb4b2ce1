use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use steadfast_generations::providers::{verify_webhook_token, webhook_token};

use super::*;

const WAIT: Duration = Duration::from_secs(10);

/// A server for webhooks: what comes to which path, and how it is answered.
fn receiver(answers: &[u16]) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/webhooks/runware", listener.local_addr().unwrap());
    let (sender, received): (Sender<(String, Vec<u8>)>, _) = channel();
    let answers = answers.to_vec();
    thread::spawn(move || {
        for index in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut path, mut length) = (String::new(), 0);
            reader.read_line(&mut path).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim().to_lowercase();
                if let Some(it) = line.strip_prefix("content-length:") {
                    length = it.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = path.split(' ').nth(1).unwrap().to_owned();
            let status = answers.get(index).or(answers.last()).unwrap();
            // Sent before the answer: a provider that gets the answer can rely on it.
            if sender.send((path, body)).is_err() {
                return;
            }
            write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    (url, received)
}

/// A video whose webhooks go to a receiver.
fn video(world: &World, url: &str, prompt: &str) -> Task {
    let task = world.video(prompt);
    let token = webhook_token(b"secret", "generation", &task.id);
    Task { webhook_url: Some(format!("{url}?task={}&token={token}", task.id)), ..task }
}

/// The state of a task in a webhook.
fn state(world: &World, task: &Task, body: &[u8]) -> TaskState {
    let mut reports = world.runware.parse_webhook(body).unwrap();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].concerns(&task.id));
    reports.remove(0).state
}

#[tokio::test]
async fn a_webhook_brings_the_result_and_the_token_of_its_task() {
    let world = World::new();
    let (url, received) = receiver(&[200]);
    let task = video(&world, &url, "a lighthouse");
    assert_eq!(world.runware.submit(&task).await.unwrap(), Submitted::Accepted);
    let (path, body) = received.recv_timeout(WAIT).unwrap();
    let token = path.split_once("&token=").unwrap().1;
    assert!(verify_webhook_token(b"secret", "generation", &task.id, token));
    let polled = finished(world.poll(&task).await.unwrap());
    assert_eq!(finished(state(&world, &task, &body)), polled);
}

#[tokio::test]
async fn a_duplicate_says_the_same_with_the_same_id() {
    let world = World::new();
    let (url, received) = receiver(&[200]);
    let task = video(&world, &url, "duplicate-webhook");
    world.runware.submit(&task).await.unwrap();
    let (first, second) =
        (received.recv_timeout(WAIT).unwrap(), received.recv_timeout(WAIT).unwrap());
    assert_eq!(first, second);
    assert!(finished(state(&world, &task, &first.1)).id.is_some());
    assert_eq!(world.fake.billings(&task.id), 1);
}

#[tokio::test]
async fn a_webhook_may_come_before_the_answer_to_the_submission() {
    let world = World::new();
    let (url, received) = receiver(&[200]);
    let task = video(&world, &url, "webhook-first");
    world.runware.submit(&task).await.unwrap();
    let (_, body) = received.try_recv().expect("it was there before the answer");
    finished(state(&world, &task, &body));
}

#[tokio::test]
async fn a_webhook_that_comes_late_or_never_is_not_needed() {
    let world = World::new();
    let (url, received) = receiver(&[200]);
    let task = video(&world, &url, "late-webhook");
    world.runware.submit(&task).await.unwrap();
    let polled = finished(world.poll(&task).await.unwrap());
    assert!(received.try_recv().is_err());
    world.fake.send_webhook(&task.id);
    let (_, body) = received.recv_timeout(WAIT).unwrap();
    assert_eq!(finished(state(&world, &task, &body)), polled);

    let task = Task { id: task.id.replace("0d6a", "1d6a"), ..video(&world, &url, "no-webhook") };
    world.runware.submit(&task).await.unwrap();
    finished(world.poll(&task).await.unwrap());
    assert!(received.try_recv().is_err());
    assert_eq!(world.fake.billings_max(), 1);
}

#[tokio::test]
async fn a_webhook_that_is_not_taken_comes_again() {
    let world = World::new();
    let (url, received) = receiver(&[503, 404, 204]);
    let task = video(&world, &url, "webhook-first");
    world.runware.submit(&task).await.unwrap();
    assert_eq!(received.try_iter().count(), 3);
    assert_eq!(world.fake.webhooks(&task.id), [503, 404, 204]);
}

#[tokio::test]
async fn errors_and_parts_come_by_webhook_as_well() {
    let world = World::new();
    let (url, received) = receiver(&[200]);
    let task = video(&world, &url, "error:nsfwContentDetected");
    world.runware.submit(&task).await.unwrap();
    let (_, body) = received.recv_timeout(WAIT).unwrap();
    let TaskState::Failed(error) = state(&world, &task, &body) else { panic!("it failed") };
    assert_eq!((error.code(), error.is_retryable()), ("content_rejected", false));

    let task = Task { id: task.id.replace("0d6a", "1d6a"), ..video(&world, &url, "partial") };
    world.runware.submit(&task).await.unwrap();
    let (_, part) = received.recv_timeout(WAIT).unwrap();
    assert!(matches!(state(&world, &task, &part), TaskState::InProgress { .. }));
    let (_, whole) = received.recv_timeout(WAIT).unwrap();
    finished(state(&world, &task, &whole));
}
