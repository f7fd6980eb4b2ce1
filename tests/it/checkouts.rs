//! Group checkouts under kill -9: each ends exactly once, with the right guests in each list.

use std::collections::BTreeMap;

use steadfast_core::{CRASH_POINTS, store::crash::COMMIT_POINTS};

use crate::{
    killer::{Ledger, Victim, open, read_all, was_killed},
    postgres,
};

async fn check_out_while_dying(place: &str) {
    let mut ledger = Ledger::default();
    // Once at every point, somewhere in the middle.
    for (index, point) in COMMIT_POINTS.iter().chain(CRASH_POINTS).enumerate() {
        let at = format!("{point}:{}", 5 + 3 * index);
        let first = ledger.next_key().to_string();
        let mut victim = Victim::steady(place, &["checkout", &first], Some(&at));
        while let Some(line) = victim.line() {
            note(&mut ledger, &line);
        }
        assert!(was_killed(victim.wait()), "point {at} was never reached");
    }
    let victim = Victim::steady(place, &["drain"], None);
    assert!(victim.wait().success(), "the last victim ends in peace");
    check(&ledger, place).await;
}

/// Executed commands are the application's here, not the victim's.
fn note(ledger: &mut Ledger, line: &str) {
    if !line.starts_with("executed") {
        ledger.note(line);
    }
}

async fn check(ledger: &Ledger, place: &str) {
    let store = open(place).await;
    let mut streams: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let all = read_all(&*store).await;
    let ids: Vec<_> = all.iter().map(|it| it.stream).collect();
    let addresses = store.addresses(&ids).await.expect("store answers");
    for message in &all {
        let name = addresses[&message.stream].name().to_owned();
        let told = match message.message_type.as_str() {
            "GroupCheckoutFailed" | "GroupCheckoutCompleted" => message.data.as_str().to_owned(),
            other => other.to_owned(),
        };
        streams.entry(name).or_default().push(told);
    }
    for acked in &ledger.acked {
        assert!(streams.contains_key(&acked.to_string()), "checkout {acked} was lost");
    }
    for (name, stream) in &streams {
        let number: u64 = name.parse().expect("a number");
        assert!(ledger.invoked.contains(&number), "checkout {number} was made up");
        let ends = stream.iter().filter(|it| *it == "Completed").count();
        assert_eq!((ends, stream.last().map(String::as_str)), (1, Some("Completed")), "{stream:?}");
        let sent = stream.iter().filter(|it| *it == "CheckOut").count();
        assert_eq!((sent, stream.len()), (3, 2 + 1 + 3 + 1 + 3 + 1 + 1), "{stream:?}");
        let (failed, done): (Vec<u64>, Vec<u64>) =
            (number * 4..number * 4 + 3).partition(|guest| guest.is_multiple_of(3));
        let list = |guests: &[u64]| {
            let quoted: Vec<String> = guests.iter().map(|it| format!("\"{it}\"")).collect();
            format!("[{}]", quoted.join(","))
        };
        let told = &stream[stream.len() - 2];
        assert!(told.contains(&list(&failed)) && told.contains(&list(&done)), "{told}");
    }
    assert_eq!(store.violations().await.expect("store answers"), Vec::<String>::new());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_checkouts_killed_at_every_point_end_once_with_the_right_guests_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    check_out_while_dying(folder.path().to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_checkouts_killed_at_every_point_end_once_with_the_right_guests_on_postgres() {
    check_out_while_dying(&postgres::schema().await).await;
}
