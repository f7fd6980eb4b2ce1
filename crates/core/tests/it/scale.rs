//! Many rows: one full stream must not delay another.

use steadfast_core::store::Message;

use crate::{
    handlers::{Gate, dispatcher},
    lab::{Lab, address, json},
    play::until,
};

const MANY: usize = 100_000;

async fn fill(lab: &Lab) {
    let busy = address("busy");
    for _ in 0..MANY / 10_000 {
        let message = || Message::new("do", json("1")).unwrap().to(&busy);
        lab.append(&busy, (0..10_000).map(|_| message()).collect()).await;
    }
}

async fn a_stream_with_100_000_pending_commands_does_not_delay_another(lab: Lab) {
    fill(&lab).await;
    let gate = Gate::closed();
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    // The busy stream fills its share of the deliveries and would fill all.
    gate.arrived(4).await;
    let urgent = lab.command(&address("quiet")).await;
    until("it is delivered", async || gate.seen.positions().contains(&urgent)).await;
    assert_eq!(gate.seen.all().len(), 5, "next in line, before anything else of the busy stream");
    lab.clock.advance(std::time::Duration::from_secs(30));
    gate.open.close();
    dispatcher.stop().await;
}

async fn a_command_behind_100_000_others_at_the_start_does_not_wait_for_them(lab: Lab) {
    fill(&lab).await;
    let urgent = lab.command(&address("quiet")).await;
    let gate = Gate::closed();
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    // The gate stays closed: the others are blocked, and yet it is delivered.
    until("it is delivered", async || gate.seen.positions().contains(&urgent)).await;
    assert_eq!(gate.seen.all().len(), 5);
    gate.open.close();
    dispatcher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_100_000_pending_commands_does_not_delay_another_on_sqlite() {
    a_stream_with_100_000_pending_commands_does_not_delay_another(Lab::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_100_000_pending_commands_does_not_delay_another_on_postgres() {
    a_stream_with_100_000_pending_commands_does_not_delay_another(Lab::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_behind_100_000_others_at_the_start_does_not_wait_for_them_on_sqlite() {
    a_command_behind_100_000_others_at_the_start_does_not_wait_for_them(Lab::sqlite().await).await;
}
