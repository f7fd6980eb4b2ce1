//! The entry points to objects: names, classes, messages, mailboxes.

use steadfast_core::{CallError, Object, ObjectOptions};

use super::{Program, by_now, ledger};
use crate::{
    lab::Lab,
    ledger::{Add, Ledger, Read, Wait},
};

laws!(
    any_unicode_of_1_to_512_bytes_is_a_name,
    objects_with_names_that_look_alike_are_different,
    a_full_mailbox_refuses_calls_until_it_has_capacity,
    unknown_classes_messages_and_names_are_reported,
    a_malformed_message_is_refused_with_the_path_of_the_field,
);

async fn any_unicode_of_1_to_512_bytes_is_a_name(mut lab: Lab) {
    let names = [
        "a".to_owned(),
        "a/b//c/".into(),
        "Grüße, 世界 🦀".into(),
        "' OR 1=1 --\"\\%_".into(),
        "\n\t\u{7f}\u{202e}".into(),
        "e\u{301}".into(),
        "ü".repeat(256),
        "x".repeat(512),
    ];
    let app = Program::on(&lab).await;
    for name in &names {
        assert_eq!(app.call(Ledger::at(name), Add { by: 1 }).await.unwrap(), 1, "{name}");
    }
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    for name in &names {
        assert_eq!(app.call(Ledger::at(name), Read).await.unwrap(), (1, 1), "{name}");
        let reply = app.objects.call_json("ledger", name, "add", r#"{"by":2}"#, None).await;
        assert_eq!(reply.unwrap(), "3");
    }
    for name in [String::new(), "x".repeat(513), "ü".repeat(257), "a\0b".into()] {
        let error = app.call(Ledger::at(&name), Add { by: 1 }).await.unwrap_err();
        assert!(matches!(error, CallError::Name(_)), "{error}");
        assert_eq!((error.code(), error.surely_unapplied()), ("invalid_name", true));
        app.objects.call_json("ledger", &name, "read", "", None).await.unwrap_err();
        app.objects.delete("ledger", &name).await.unwrap_err();
    }
    lab.assert_sound().await;
}

async fn objects_with_names_that_look_alike_are_different(lab: Lab) {
    let app = Program::on(&lab).await;
    for (by, name) in ["a", "A", "a ", " a", "é", "e\u{301}", "a/", "/a"].iter().enumerate() {
        let by = i64::try_from(by).unwrap();
        assert_eq!(app.call(Ledger::at(*name), Add { by }).await.unwrap(), by, "{name}");
    }
}

async fn a_full_mailbox_refuses_calls_until_it_has_capacity(lab: Lab) {
    let (class, options) =
        (Ledger::default(), ObjectOptions { mailbox_max: 3, ..ObjectOptions::default() });
    let app = Program::with(&lab, class.clone(), options).await;
    class.gate.close();
    let mut running = app.call(Ledger::at("a"), Wait { refuse: false });
    assert!(by_now(&mut running).is_none());
    class.gate.reached().await;
    let mut waiting: Vec<_> = (0..3).map(|_| app.call(Ledger::at("a"), Add { by: 1 })).collect();
    assert!(waiting.iter_mut().all(|it| by_now(it).is_none()));
    let error = app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap_err();
    assert!(matches!(&error, CallError::Busy { object } if object == "object/ledger/a"), "{error}");
    assert!(error.is_retryable() && error.surely_unapplied() && error.code() == "busy");
    // Others have capacity.
    assert_eq!(app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap(), 1);
    class.gate.open();
    assert_eq!(running.await.unwrap(), 0);
    for (call, wanted) in waiting.into_iter().zip(1..) {
        assert_eq!(call.await.unwrap(), wanted);
    }
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 4);
}

async fn unknown_classes_messages_and_names_are_reported(lab: Lab) {
    let app = Program::on(&lab).await;
    let call = async |class: &str, message: &str| {
        app.objects.call_json(class, "a", message, "", None).await.unwrap_err()
    };
    assert_eq!(call("nobody", "read").await.code(), "class_not_found");
    assert_eq!(call("", "read").await.code(), "class_not_found");
    for message in ["nothing", "", "READ", "_steadfast", "alarm", "wake", "delete"] {
        let error = call("ledger", message).await;
        assert!(matches!(error, CallError::UnknownMessage { .. }), "{message}: {error}");
        assert!(error.surely_unapplied() && error.code() == "message_not_found");
    }
    assert_eq!(app.objects.delete("nobody", "a").await.unwrap_err().code(), "class_not_found");
    assert!(lab.store.head(ledger("a").id()).await.unwrap().is_none());
}

async fn a_malformed_message_is_refused_with_the_path_of_the_field(lab: Lab) {
    let app = Program::on(&lab).await;
    for (message, body, wanted) in [
        ("add", r#"{"by":"one"}"#, "by"),
        ("add", r#"{"by":1.5}"#, "by"),
        ("add", r#"{"by":9223372036854775808}"#, "by"),
        ("add", r#"{}"#, "."),
        ("add", r#"{"by":1} x"#, "."),
        ("add", r#"{"by":1"#, "."),
        ("add", "", "."),
        ("add", "null", "."),
        ("sql", r#"{"statements":["ok",7],"strict":true}"#, "statements[1]"),
        ("clockwork", r#"{"Set":{"name":"x","after":{"secs":"no"}}}"#, "Set.after.secs"),
    ] {
        let error = app.objects.call_json("ledger", "a", message, body, None).await.unwrap_err();
        let CallError::Malformed { path, detail, .. } = &error else { panic!("{body}: {error}") };
        assert!(!detail.is_empty() && error.surely_unapplied());
        assert_eq!(path, wanted, "{body}: {detail}");
    }
    for body in ["", "null"] {
        let reply = app.objects.call_json("ledger", "a", "read", body, None).await;
        assert_eq!(reply.unwrap(), "[0,0]");
    }
    assert!(lab.store.head(ledger("a").id()).await.unwrap().is_none());
}
