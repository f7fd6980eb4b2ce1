//! Calls, connections and deletions of objects.

use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::{App, Closed, ConnectParams, Object, RequestKey, Runtime};

use super::{Area, agree, dropped, each};
use crate::{
    hall::{Hall, Look},
    lab::Lab,
    ledger::{Add, Ledger, Read},
    play::until,
};

pub(super) const AREAS: &[Area] = &[
    Area {
        file: "object/call.rs",
        tried: &["call_json", "call_json_by", "call_once"],
        others: &[],
    },
    Area { file: "object/objects.rs", tried: &["delete"], others: &[] },
    Area {
        file: "object/live.rs",
        tried: &["close", "connect", "send"],
        others: &["ended", "hang_up", "next"],
    },
    // A client of the same program calls the operations of the other files.
    Area {
        file: "runtime/client.rs",
        tried: &[],
        others: &["call_json", "connect", "delete", "input", "send", "start"],
    },
];

laws!(on sqlite, postgres:
    a_call_has_happened_if_the_store_says_so,
    a_call_with_a_key_happens_once,
    an_object_is_deleted_if_the_store_says_so,
    connections_of_callers_that_were_dropped_end,
);

fn program() -> App {
    App::new("test").object(Ledger::default()).object(Hall)
}

async fn start(lab: &Lab) -> Runtime {
    program().start(lab.store.clone()).await.unwrap()
}

async fn total(app: &Runtime, name: &str) -> Vec<String> {
    vec![format!("{:?}", app.call(Ledger::at(name), Read).await.unwrap())]
}

async fn a_call_has_happened_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        let called = dropped(polls, app.call(Ledger::at("a"), Add { by: 1 }).into_future()).await;
        agree(&app, program, async |app| total(app, "a").await).await;
        called
    })
    .await;
    each(async |polls| {
        let call = app.objects().call_json("ledger", "a", "add", r#"{"by":1}"#, None);
        let called = dropped(polls, call).await;
        agree(&app, program, async |app| total(app, "a").await).await;
        called
    })
    .await;
    app.stop().await;
}

async fn a_call_with_a_key_happens_once(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        let name = format!("once {polls}");
        let key = || RequestKey::new("Add", None, &name, b"").unwrap();
        let call = || app.objects().call_once(Ledger::at(&*name), Add { by: 1 }, key());
        let called = dropped(polls, call()).await;
        call().await.expect("a repetition is answered");
        assert_eq!(app.call(Ledger::at(&*name), Read).await.unwrap().0, 1);
        agree(&app, program, async |app| total(app, &name).await).await;
        called
    })
    .await;
    app.stop().await;
}

async fn an_object_is_deleted_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        let name = format!("gone {polls}");
        app.call(Ledger::at(&*name), Add { by: 1 }).await.unwrap();
        let deleted = dropped(polls, app.objects().delete("ledger", &name)).await;
        agree(&app, program, async |app| total(app, &name).await).await;
        deleted
    })
    .await;
    app.stop().await;
}

/// The members of a hall.
async fn members(app: &Runtime) -> Vec<String> {
    vec![format!("{:?}", app.call(Hall::at("h"), Look).await.unwrap().here)]
}

async fn connections_of_callers_that_were_dropped_end(lab: Lab) {
    let app = start(&lab).await;
    let names = AtomicUsize::new(0);
    let connect = || {
        let name = names.fetch_add(1, Ordering::Relaxed).to_string();
        app.objects().connect("hall", "h", ConnectParams::new().param("name", name))
    };
    each(async |polls| dropped(polls, connect()).await.map(drop)).await;
    each(async |polls| {
        let socket = connect().await.unwrap();
        dropped(polls, socket.send("hello")).await
    })
    .await;
    each(async |polls| {
        let socket = connect().await.unwrap();
        dropped(polls, socket.close(Closed::new(1_000, "as the test wanted"))).await
    })
    .await;
    until("all have left", async || members(&app).await == ["[]"]).await;
    assert_eq!(app.objects().connections(), 0);
    agree(&app, program, members).await;
    app.stop().await;
}
