//! Chat rooms in a whole program, on a store in memory, with a clock that the test turns.

use std::{collections::BTreeMap, time::Duration};

use steadfast_chat::{Chat, Event, History, Line, Say};
use steadfast_core::{
    App, Closed, ConnectParams, Error, LiveSocket, Object, Result,
    test::{TestApp, assert_survives_crashes},
};

const IDLE: Duration = Duration::from_secs(300);

fn program() -> steadfast_core::App {
    App::new("test").object(Chat { idle: IDLE })
}

async fn come(app: &TestApp, arrival: ConnectParams, name: &str) -> Result<LiveSocket> {
    Ok(app.connect(Chat::at("lobby"), arrival.param("name", name)).await?)
}

async fn hears(socket: &LiveSocket) -> Result<Event> {
    let event = socket.next().await.map_err(|closed| Error::retryable(closed.reason))?;
    Ok(serde_json::from_str(&event.text)?)
}

/// The next line. Skips events about members that join or leave.
async fn line(socket: &LiveSocket) -> Result<Line> {
    loop {
        if let Event::Line(line) = hears(socket).await? {
            return Ok(line);
        }
    }
}

async fn say(app: &TestApp, key: &str, text: &str) -> Result<Line> {
    let say = Say { key: key.into(), who: "somebody".into(), text: text.into() };
    Ok(app.call(Chat::at("lobby"), say).await?)
}

fn said(key: &str, text: &str) -> String {
    format!(r#"{{"key": "{key}", "text": "{text}"}}"#)
}

#[tokio::test]
async fn everybody_in_a_room_hears_what_is_said_and_who_is_there() -> Result<()> {
    let app = program().test().await?;
    let ann = come(&app, ConnectParams::new(), "ann").await?;
    let bob = come(&app, ConnectParams::new(), "bob").await?;
    assert_eq!(hears(&ann).await?, Event::Here { names: vec!["ann".into()] });
    for socket in [&ann, &bob] {
        assert_eq!(hears(socket).await?, Event::Here { names: vec!["ann".into(), "bob".into()] });
    }
    ann.send(&said("k1", "hello")).await?;
    for socket in [&ann, &bob] {
        let line = line(socket).await?;
        assert_eq!((line.id, &*line.who, &*line.text), (1, "ann", "hello"));
    }
    bob.close(Closed::new(Closed::NORMAL, "")).await;
    assert_eq!(hears(&ann).await?, Event::Here { names: vec!["ann".into()] });
    Ok(())
}

#[tokio::test]
async fn who_says_nothing_for_long_leaves_and_who_does_stays() -> Result<()> {
    let app = program().test().await?;
    let ann = come(&app, ConnectParams::new(), "ann").await?;
    let bob = come(&app, ConnectParams::new(), "bob").await?;
    app.advance(IDLE - Duration::from_secs(1)).await;
    ann.send(&said("k1", "still here")).await?;
    app.advance(Duration::from_secs(10)).await;
    let closed = loop {
        if let Err(closed) = bob.next().await {
            break closed;
        }
    };
    assert_eq!((closed.code, &*closed.reason), (1_000, "inactive for too long"));
    bob.close(closed).await;
    ann.send(&said("k2", "bob is gone")).await?;
    assert_eq!(line(&ann).await?.text, "still here");
    assert_eq!(hears(&ann).await?, Event::Here { names: vec!["ann".into()] });
    assert_eq!(line(&ann).await?.text, "bob is gone");
    Ok(())
}

#[tokio::test]
async fn who_comes_again_hears_what_was_missed_and_what_was_left_out() -> Result<()> {
    let app = program().test().await?;
    for number in 1..=60 {
        say(&app, &format!("k{number}"), &format!("line {number}")).await?;
    }
    let again = come(&app, ConnectParams::new().after(57), "ann").await?;
    for id in 58..=60 {
        assert_eq!(line(&again).await?.id, id);
    }
    let new = come(&app, ConnectParams::new(), "bob").await?;
    assert_eq!(hears(&new).await?, Event::Earlier { after: 0, before: 11 });
    assert_eq!(line(&new).await?.id, 11);
    let left_out = History { after: 0, before: Some(11), limit: 4 };
    let left_out = app.call(Chat::at("lobby"), left_out).await?;
    assert_eq!(left_out.iter().map(|it| it.id).collect::<Vec<_>>(), [7, 8, 9, 10]);
    Ok(())
}

#[tokio::test]
async fn a_line_that_is_repeated_is_there_once_and_told_again_to_who_repeats_it() -> Result<()> {
    let app = program().test().await?;
    let ann = come(&app, ConnectParams::new(), "ann").await?;
    let bob = come(&app, ConnectParams::new(), "bob").await?;
    for _ in 0..2 {
        ann.send(&said("k1", "hello")).await?;
        assert_eq!(line(&ann).await?.id, 1);
    }
    ann.send(&said("k2", "again")).await?;
    assert_eq!((line(&bob).await?.id, line(&bob).await?.id), (1, 2));
    Ok(())
}

#[tokio::test]
async fn a_name_and_a_text_are_needed() -> Result<()> {
    let app = program().test().await?;
    let nameless = app.connect(Chat::at("lobby"), ConnectParams::new()).await.err();
    assert_eq!(nameless.map(|it| it.code().to_owned()).as_deref(), Some("no_name"));
    let ann = come(&app, ConnectParams::new(), "ann").await?;
    for (text, code) in [
        (said("k1", " "), "invalid_text"),
        (said("", "hello"), "invalid_key"),
        ("hello".into(), "malformed"),
    ] {
        assert_eq!(ann.send(&text).await.unwrap_err().code(), code);
    }
    assert_eq!(say(&app, "k1", "fine").await?.id, 1, "nothing was kept of the others");
    Ok(())
}

#[tokio::test]
async fn wherever_the_process_ends_no_line_is_lost_or_doubled() {
    let survived = assert_survives_crashes(program, async |app| {
        let ann = come(app, ConnectParams::new().after(0), "ann").await?;
        for key in ["k1", "k2"] {
            ann.send(&said(key, key)).await?;
        }
        // She may get a repeated line twice; both have the same number.
        let mut heard = BTreeMap::new();
        while heard.len() < 2 {
            let line = line(&ann).await?;
            heard.insert(line.id, line.text);
        }
        assert!(heard.contains_key(&1) && heard.contains_key(&2), "{heard:?}");
        Ok(heard)
    });
    assert!(6 <= survived.await);
}
