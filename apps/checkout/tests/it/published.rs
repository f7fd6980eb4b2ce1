//! Subscribers get what a group checkout publishes, and the clerk gets a reply.

use std::sync::{Arc, Mutex};

use steadfast_checkout::{
    BoardConsumer, GroupCheckout, Hotel, Notice, NoticeBoard, Notices, PUBLISHED,
    group_checkout::{Output, Rejection},
};
use steadfast_core::{
    App, Consumer, Delivery, Object, Queue, Result, Settled, process::Published, store::ManualClock,
};

use crate::group::{GROUP, LATER, NOW, initiate, initiated};

const BOARD: Queue<Published> = Queue::named("board");

#[derive(Clone, Default)]
struct Board(Arc<Mutex<Vec<Output>>>);

impl Consumer for Board {
    type Message = Published;

    async fn deliver(&self, delivery: Delivery<Published>) -> Result<Settled> {
        let output = delivery.message.output::<GroupCheckout>()?;
        self.0.lock().expect("the board is whole").push(output);
        Ok(delivery.done())
    }
}

#[tokio::test]
async fn what_a_group_publishes_is_on_the_board_and_a_second_clerk_gets_a_reply() {
    let board = Board::default();
    let clock = Arc::new(ManualClock::at(steadfast_core::store::Timestamp(LATER)));
    let program = App::new("test")
        .process::<GroupCheckout>(Hotel::new(clock))
        .subscribe::<GroupCheckout>(BOARD)
        .consume(BOARD, board.clone())
        .subscribe::<GroupCheckout>(PUBLISHED)
        .consume(PUBLISHED, BoardConsumer)
        .object(NoticeBoard);
    let app = program.test().await.unwrap();
    let first = app.processes().input::<GroupCheckout>(&initiate(&["ann"]), None).await.unwrap();
    assert!(first.reply.is_none());
    let second = app.processes().input::<GroupCheckout>(&initiate(&["ann"]), None).await.unwrap();
    let reply = second.reply.expect("the second clerk gets an answer");
    assert_eq!(reply.message_type, "GroupCheckoutRejected");
    assert_eq!(reply.data["reason"], serde_json::to_value(Rejection::AlreadyInitiated).unwrap());
    assert_eq!(reply.data["groupCheckoutId"], GROUP);
    assert_eq!(reply.data["rejectedAt"], NOW);
    app.settle().await;
    let told = board.0.lock().unwrap().clone();
    assert!(told.contains(&initiated(&["ann"])), "{told:?}");
    let is_over = |it: &Output| matches!(it, Output::GroupCheckoutCompleted { .. });
    assert!(told.iter().any(is_over), "{told:?}");
    assert_eq!(told.len(), 2, "the reply is for the clerk alone");
    let lobby = NoticeBoard::at(NoticeBoard::LOBBY);
    let notices = app.call(lobby, Notices {}).await.unwrap();
    let shown = |it: &Notice| (it.group.clone(), it.message_type.clone());
    let expected = ["GroupCheckoutCompleted", "GroupCheckoutInitiated"];
    let expected = expected.map(|it| (GROUP.to_owned(), it.to_owned()));
    assert_eq!(notices.iter().map(shown).collect::<Vec<_>>(), expected, "the latest first");
    assert_eq!(notices[1].data["initiatedAt"], NOW);
}
