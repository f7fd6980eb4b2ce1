//! A kind of work that hangs delays no other, on however many targets it hangs.

use steadfast_core::{
    Dispatcher, DispatcherOptions,
    store::{Due, Message, Task},
};

use crate::{
    handlers::{Does, Gate, OPTIONS, Seen, dispatcher, ok},
    lab::{Lab, address, json},
    play::until,
};

laws!(
    a_kind_that_hangs_on_more_targets_than_fit_into_memory_delays_no_other,
    kinds_that_hang_on_a_backlog_delay_no_other_at_the_start,
    targets_beyond_a_full_pool_are_delivered_when_it_has_permits,
    ordered_targets_beyond_a_full_pool_keep_their_order,
);

/// More than three times the targets that fit into memory.
const MANY: usize = 40;

/// Two permits for each kind, and memory for few targets.
fn options() -> DispatcherOptions {
    DispatcherOptions { concurrency: 2, targets_max: 12, page: 5, ..OPTIONS }
}

async fn start(lab: &Lab, hangs: [(&str, &Gate); 2], seen: &Seen) -> Dispatcher {
    let builder = dispatcher(lab).options(options()).on("do", Does(seen.clone(), ok));
    let builder = hangs.iter().fold(builder, |it, (kind, gate)| it.on(kind, (*gate).clone()));
    builder.start().await.unwrap()
}

/// Sends a message of a kind to many targets, this often.
async fn send(lab: &Lab, kind: &str, ordered: bool, times: usize) {
    for number in 0..MANY * times {
        let target = address(&format!("{kind}-{}", number % MANY));
        let task = Task { target, ordered, due: Due::After(std::time::Duration::ZERO) };
        let message = Message::new(kind, json("1")).unwrap().task(task);
        lab.append(&address("sender"), vec![message]).await;
    }
}

/// A message of another kind arrives while these hang.
async fn another_arrives(lab: &Lab, seen: &Seen) {
    let position = lab.command(&address("quick")).await;
    until("the other kind arrives", async || seen.positions() == [position]).await;
}

/// The gates open, and everything is delivered once.
async fn all_arrive(lab: Lab, dispatcher: Dispatcher, gates: &[(&Gate, usize)]) {
    gates.iter().for_each(|(gate, many)| gate.open.add_permits(*many));
    dispatcher.settled().await;
    for (gate, many) in gates {
        let mut positions = gate.seen.positions();
        positions.sort_unstable();
        positions.dedup();
        assert_eq!((positions.len(), gate.seen.all().len()), (*many, *many));
    }
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
    assert_eq!(dispatcher.forgotten().await.unwrap(), Vec::<i64>::new());
    dispatcher.stop().await;
    lab.assert_sound().await;
}

async fn a_kind_that_hangs_on_more_targets_than_fit_into_memory_delays_no_other(lab: Lab) {
    let (gate, idle, seen) = (Gate::closed(), Gate::closed(), Seen::default());
    let dispatcher = start(&lab, [("hang", &gate), ("idle", &idle)], &seen).await;
    send(&lab, "hang", false, 1).await;
    gate.arrived(2).await;
    another_arrives(&lab, &seen).await;
    all_arrive(lab, dispatcher, &[(&gate, MANY)]).await;
}

async fn kinds_that_hang_on_a_backlog_delay_no_other_at_the_start(lab: Lab) {
    let (one, two, seen) = (Gate::closed(), Gate::closed(), Seen::default());
    send(&lab, "one", false, 2).await;
    send(&lab, "two", true, 2).await;
    let dispatcher = start(&lab, [("one", &one), ("two", &two)], &seen).await;
    one.arrived(2).await;
    two.arrived(2).await;
    another_arrives(&lab, &seen).await;
    all_arrive(lab, dispatcher, &[(&one, 2 * MANY), (&two, 2 * MANY)]).await;
}

async fn targets_beyond_a_full_pool_are_delivered_when_it_has_permits(lab: Lab) {
    let (gate, idle, seen) = (Gate::closed(), Gate::closed(), Seen::default());
    let dispatcher = start(&lab, [("hang", &gate), ("idle", &idle)], &seen).await;
    send(&lab, "hang", false, 1).await;
    // Each permit passes to the next target, although most targets are only in the store.
    for delivered in 1..=MANY {
        gate.arrived(delivered).await;
        assert!(gate.most.load(std::sync::atomic::Ordering::SeqCst) <= 2);
        gate.open.add_permits(1);
    }
    all_arrive(lab, dispatcher, &[(&gate, MANY)]).await;
}

async fn ordered_targets_beyond_a_full_pool_keep_their_order(lab: Lab) {
    let (gate, idle, seen) = (Gate::closed(), Gate::closed(), Seen::default());
    let dispatcher = start(&lab, [("hang", &gate), ("idle", &idle)], &seen).await;
    send(&lab, "hang", true, 3).await;
    gate.arrived(2).await;
    another_arrives(&lab, &seen).await;
    let positions = gate.seen.clone();
    all_arrive(lab, dispatcher, &[(&gate, 3 * MANY)]).await;
    for target in 0..MANY as i64 {
        let of = |it: &i64| (it - 1) % MANY as i64 == target;
        let arrived: Vec<i64> = positions.positions().into_iter().filter(of).collect();
        assert!(arrived.is_sorted(), "target {target}: {arrived:?}");
    }
}
