//! Tokens, sessions and the audit log.

use std::time::Duration;

use steadfast_core::{App, AuditEvent, Role, Runtime, SESSION_IDLE, TokenSpec};

use super::{Area, agree, dropped, each};
use crate::lab::Lab;

pub(super) const AREAS: &[Area] = &[
    Area {
        file: "access/tokens/change.rs",
        tried: &["close", "create", "replace", "revoke", "rotate"],
        others: &[],
    },
    Area {
        file: "access/tokens.rs",
        tried: &[],
        others: &[
            "authenticate",
            "by_secret",
            "count_of",
            "ended",
            "expiring",
            "get",
            "is_closed",
            "is_closed",
            "list",
            "list_of",
            "principal",
            "snapshot",
            "valid",
        ],
    },
    Area {
        file: "access/sessions.rs",
        tried: &["begin", "begin_with_link", "end", "end_by_id", "find", "link"],
        others: &["ended", "list"],
    },
    Area {
        file: "access/audit.rs",
        tried: &["record"],
        others: &["broken", "has", "list", "stored_head", "unsealed"],
    },
];

laws!(on sqlite, postgres:
    a_token_is_revoked_if_the_store_says_so,
    a_rotated_token_has_the_secret_that_the_store_has,
    a_token_is_known_if_the_store_has_it,
    access_is_closed_if_the_store_says_so,
    a_session_has_ended_if_the_store_says_so,
    a_session_that_was_used_lasts_as_long_as_the_store_says,
    a_session_begins_after_callers_that_were_dropped,
    the_audit_log_has_no_gap,
);

fn program() -> App {
    App::new("test")
}

async fn start(lab: &Lab) -> Runtime {
    program().start(lab.store.clone()).await.unwrap()
}

fn spec() -> TokenSpec {
    TokenSpec::role(Role::Admin)
}

/// The principal of a secret, and the tokens.
async fn tokens(app: &Runtime, secret: &str) -> Vec<String> {
    let found = app.tokens().authenticate(secret).await;
    let mut answers = vec![format!("{:?}", found.map_err(|it| it.to_string()))];
    answers.push(format!("closed: {}", app.tokens().is_closed().await.unwrap()));
    for it in app.tokens().list(None, 1_000).await.unwrap() {
        answers.push(format!("{} {:?} {:?}", it.id, it.created_at, it.revoked_at));
    }
    answers
}

/// The principal of the secret of a session.
async fn session(app: &Runtime, secret: &str) -> Vec<String> {
    let found = app.sessions().find(secret).await;
    vec![format!("{:?}", found.map_err(|it| it.to_string()))]
}

async fn a_token_is_revoked_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        let made = app.tokens().create(spec(), None).await.unwrap();
        app.tokens().authenticate(&made.secret).await.unwrap();
        let revoked = dropped(polls, app.tokens().revoke(&made.token.id)).await;
        agree(&app, program, async |app| tokens(app, &made.secret).await).await;
        revoked
    })
    .await;
    app.stop().await;
}

async fn a_rotated_token_has_the_secret_that_the_store_has(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        let made = app.tokens().create(spec(), None).await.unwrap();
        app.tokens().authenticate(&made.secret).await.unwrap();
        let rotated = dropped(polls, app.tokens().rotate(&made.token.id)).await;
        agree(&app, program, async |app| tokens(app, &made.secret).await).await;
        rotated
    })
    .await;
    each(async |polls| {
        let made = app.tokens().create(spec(), None).await.unwrap();
        app.tokens().authenticate(&made.secret).await.unwrap();
        let hour = Duration::from_hours(1);
        let replaced = dropped(polls, app.tokens().replace(&made.token.id, hour, None)).await;
        agree(&app, program, async |app| tokens(app, &made.secret).await).await;
        replaced
    })
    .await;
    app.stop().await;
}

async fn a_token_is_known_if_the_store_has_it(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        tokens(&app, "").await;
        let made = dropped(polls, app.tokens().create(spec(), None)).await;
        agree(&app, program, async |app| tokens(app, "").await).await;
        made
    })
    .await;
    app.stop().await;
}

async fn access_is_closed_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    each(async |polls| {
        app.tokens().is_closed().await.unwrap();
        let closed = dropped(polls, app.tokens().close()).await;
        agree(&app, program, async |app| tokens(app, "").await).await;
        closed
    })
    .await;
    app.stop().await;
}

async fn a_session_has_ended_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    let token = app.tokens().create(spec(), None).await.unwrap();
    each(async |polls| {
        let begun = app.sessions().begin(&token.secret, None).await.unwrap();
        app.sessions().find(&begun.secret).await.unwrap();
        let ended = dropped(polls, app.sessions().end(&begun.secret)).await;
        agree(&app, program, async |app| session(app, &begun.secret).await).await;
        app.sessions().end(&begun.secret).await.unwrap();
        ended
    })
    .await;
    each(async |polls| {
        let begun = app.sessions().begin(&token.secret, None).await.unwrap();
        app.sessions().find(&begun.secret).await.unwrap();
        let listed = app.sessions().list(None, None, 9).await.unwrap().0;
        let ended = dropped(polls, app.sessions().end_by_id(&listed[0].id, None)).await;
        agree(&app, program, async |app| session(app, &begun.secret).await).await;
        app.sessions().end(&begun.secret).await.unwrap();
        ended
    })
    .await;
    app.stop().await;
}

async fn a_session_that_was_used_lasts_as_long_as_the_store_says(lab: Lab) {
    let app = start(&lab).await;
    let token = app.tokens().create(spec(), None).await.unwrap();
    each(async |polls| {
        let begun = app.sessions().begin(&token.secret, None).await.unwrap();
        app.sessions().find(&begun.secret).await.unwrap();
        // Late enough for its use to be written.
        lab.clock.advance(Duration::from_mins(10));
        let found = dropped(polls, app.sessions().find(&begun.secret)).await;
        // Only this use makes it last until now.
        agree(&app, program, async |app| vec![app.name().to_owned()]).await;
        lab.clock.advance(SESSION_IDLE - Duration::from_mins(5));
        let fresh = program().prepare(lab.store.clone()).await.unwrap();
        let lasts = session(&app, &begun.secret).await;
        assert_eq!(lasts, session(&fresh, &begun.secret).await, "{polls} polls");
        found
    })
    .await;
    app.stop().await;
}

async fn a_session_begins_after_callers_that_were_dropped(lab: Lab) {
    let app = start(&lab).await;
    let token = app.tokens().create(spec(), None).await.unwrap();
    each(async |polls| {
        let begun = dropped(polls, app.sessions().begin(&token.secret, None)).await;
        let link = dropped(polls, app.sessions().link(&token.token.id)).await;
        let code = app.sessions().link(&token.token.id).await.unwrap();
        let linked = dropped(polls, app.sessions().begin_with_link(&code, None)).await;
        let begun_now = app.sessions().begin(&token.secret, None).await.unwrap();
        agree(&app, program, async |app| session(app, &begun_now.secret).await).await;
        begun.and(link).and(linked)
    })
    .await;
    app.stop().await;
}

async fn the_audit_log_has_no_gap(lab: Lab) {
    let app = start(&lab).await;
    let text = || String::from("test");
    let event = || AuditEvent {
        client: text(),
        action: text(),
        target: text(),
        outcome: text(),
        request_id: text(),
        ..AuditEvent::default()
    };
    each(async |polls| {
        let recorded = dropped(polls, app.audit().record(event())).await;
        app.audit().record(event()).await.unwrap();
        assert_eq!(app.audit().broken(1_000).await.unwrap(), None);
        let listed = async |app: &Runtime| {
            let listed = app.audit().list(None, 1_000).await.unwrap();
            listed.iter().map(|it| format!("{it:?}")).collect()
        };
        agree(&app, program, listed).await;
        recorded
    })
    .await;
    app.stop().await;
}
