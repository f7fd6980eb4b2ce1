//! Messages and settings of queues.

use std::time::Duration;

use steadfast_core::{
    App, QueueSettings, Runtime,
    queue::{Outgoing, Redrive},
    revive,
    store::{Json, Position},
};

use super::{Area, agree, dropped, each};
use crate::{
    lab::Lab,
    post::{DEAD, MAIL, mail},
};

pub(super) const AREAS: &[Area] = &[
    Area {
        file: "queue/control.rs",
        tried: &["configure", "pause", "purge", "resume", "sweep"],
        others: &["is_paused"],
    },
    Area {
        file: "queue/send.rs",
        tried: &["send", "send_after", "send_all", "send_json"],
        others: &[],
    },
    Area { file: "queue/pull.rs", tried: &["ack", "pull"], others: &[] },
    Area { file: "queue/redrive.rs", tried: &["edit", "redrive"], others: &[] },
    Area { file: "queue/queues.rs", tried: &[], others: &["names_behind", "stop"] },
    Area { file: "revive.rs", tried: &["revive"], others: &[] },
];

laws!(on sqlite, postgres:
    settings_of_a_queue_are_those_of_the_store,
    messages_of_senders_that_were_dropped_are_delivered_if_the_store_has_them,
    pulled_messages_of_consumers_that_were_dropped_are_delivered_again,
    changed_messages_are_delivered_as_the_store_has_them,
);

const LEASE: Duration = Duration::from_secs(30);

fn program() -> App {
    App::new("test").queue(MAIL.dead_letters(DEAD)).queue(DEAD)
}

async fn start(lab: &Lab) -> Runtime {
    program().start(lab.store.clone()).await.unwrap()
}

async fn view(app: &Runtime) -> Vec<String> {
    let view = app.queues().show("mail").await.unwrap();
    let depth = (view.ready, view.delayed, view.in_flight, view.dead, view.oldest_age_ms);
    vec![format!("{depth:?} {:?} {}", view.settings, view.paused)]
}

/// Everything that the store has for a queue can be pulled and settled.
async fn all_are_delivered(lab: &Lab, app: &Runtime) -> Vec<Position> {
    lab.clock.advance(2 * LEASE);
    let mut pulled = Vec::new();
    loop {
        let some = app.queues().pull("mail", 1_000, LEASE).await.unwrap();
        let leases: Vec<_> = some.iter().map(|it| it.lease).collect();
        if leases.is_empty() {
            break;
        }
        assert_eq!(app.queues().ack("mail", &leases, &[]).await.unwrap().acked, leases.len());
        pulled.extend(some.iter().map(|it| it.queued.message.position));
    }
    let depth = app.queues().show("mail").await.unwrap().depth;
    assert_eq!(depth, 0);
    assert_eq!(app.forgotten().await.unwrap(), Vec::<Position>::new());
    pulled
}

async fn settings_of_a_queue_are_those_of_the_store(lab: Lab) {
    let app = start(&lab).await;
    let queues = app.queues();
    each(async |polls| {
        let settings = QueueSettings { max_retries: polls as u32, ..QueueSettings::default() };
        let done = dropped(polls, queues.configure("mail", settings)).await;
        agree(&app, program, view).await;
        done
    })
    .await;
    each(async |polls| {
        queues.resume("mail").await.unwrap();
        let done = dropped(polls, queues.pause("mail")).await;
        agree(&app, program, view).await;
        done
    })
    .await;
    each(async |polls| {
        queues.pause("mail").await.unwrap();
        let done = dropped(polls, queues.resume("mail")).await;
        agree(&app, program, view).await;
        done
    })
    .await;
    app.stop().await;
}

async fn messages_of_senders_that_were_dropped_are_delivered_if_the_store_has_them(lab: Lab) {
    let app = start(&lab).await;
    let (queues, one) = (app.queues(), mail("a"));
    each(async |polls| dropped(polls, queues.send(MAIL, &one)).await).await;
    each(async |polls| dropped(polls, queues.send_after(MAIL, &one, LEASE)).await).await;
    each(async |polls| dropped(polls, queues.send_all(MAIL, [&one, &one])).await).await;
    each(async |polls| {
        let key = polls.to_string();
        let body = Json::of(&one).unwrap();
        let all = || vec![Outgoing { body: body.clone(), delay: Duration::ZERO }];
        let sent = dropped(polls, queues.send_json("mail", all(), Some(&key))).await;
        queues.send_json("mail", all(), Some(&key)).await.expect("a repetition is answered");
        sent
    })
    .await;
    agree(&app, program, view).await;
    let waiting = queues.show("mail").await.unwrap().depth;
    assert_eq!(all_are_delivered(&lab, &app).await.len() as u64, waiting);
    app.stop().await;
}

async fn pulled_messages_of_consumers_that_were_dropped_are_delivered_again(lab: Lab) {
    let app = start(&lab).await;
    let queues = app.queues();
    let mut sent = Vec::new();
    for _ in 0..10 {
        sent.push(queues.send(MAIL, &mail("a")).await.unwrap());
    }
    each(async |polls| dropped(polls, queues.pull("mail", 2, LEASE)).await).await;
    agree(&app, program, view).await;
    lab.clock.advance(2 * LEASE);
    let pulled = queues.pull("mail", 10, LEASE).await.unwrap();
    each(async |polls| {
        let lease = pulled[polls % pulled.len()].lease;
        dropped(polls, queues.ack("mail", &[], &[(lease, Some(LEASE))])).await
    })
    .await;
    agree(&app, program, view).await;
    let mut delivered = all_are_delivered(&lab, &app).await;
    delivered.sort_unstable();
    assert_eq!(delivered, sent);
    app.stop().await;
}

async fn changed_messages_are_delivered_as_the_store_has_them(lab: Lab) {
    let app = start(&lab).await;
    let queues = app.queues();
    each(async |polls| {
        let id = queues.send(MAIL, &mail("a")).await.unwrap();
        let body = Json::of(&mail("b")).unwrap();
        let edited = dropped(polls, queues.edit("mail", id, body, None)).await;
        agree(&app, program, view).await;
        edited
    })
    .await;
    each(async |polls| {
        let what = Redrive { to: Some("mail-dead".into()), ..Redrive::default() };
        queues.send(MAIL, &mail("c")).await.unwrap();
        let moved = dropped(polls, queues.redrive("mail", &what)).await;
        agree(&app, program, view).await;
        moved
    })
    .await;
    each(async |polls| {
        queues.send(MAIL, &mail("d")).await.unwrap();
        let purged = dropped(polls, queues.purge("mail", None, None)).await;
        agree(&app, program, view).await;
        purged
    })
    .await;
    each(async |polls| {
        let id = queues.send(MAIL, &mail("d")).await.unwrap();
        queues.purge("mail", None, None).await.unwrap();
        let message = app.store().message(id).await.unwrap().unwrap();
        let revived = dropped(polls, revive(&**app.store(), &message, None)).await;
        agree(&app, program, view).await;
        revived
    })
    .await;
    each(async |polls| dropped(polls, queues.sweep()).await).await;
    queues.send(MAIL, &mail("e")).await.unwrap();
    agree(&app, program, view).await;
    assert!(!all_are_delivered(&lab, &app).await.is_empty());
    app.stop().await;
}
