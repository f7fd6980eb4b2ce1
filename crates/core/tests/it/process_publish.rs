//! Published outputs reach subscribers, and replies reach callers.

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Failure, Queue,
    process::{
        Action::*, Actions, Event, EventOf, Execute, Process, Processes, Published, Refused,
    },
    store::{DueCursor, Timestamp, queue_address},
    test::assert_survives_crashes,
};

use crate::{handlers::dispatcher, lab::Lab};

/// Sells things, and publishes that.
struct Shop;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Order {
    Buy(u32),
    Close,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Sale {
    Sold(u32),
    Receipt(u32),
    Closed,
}

impl Process for Shop {
    const NAME: &'static str = "shop";
    type Input = Order;
    type Output = Sale;
    type State = u32;

    fn route(_: &Order) -> Option<String> {
        Some("corner".into())
    }

    fn decide(input: &Order, sold: &u32) -> Result<Actions<Self>, Refused> {
        Ok(match input {
            Order::Buy(price) => {
                vec![Publish(Sale::Sold(*price)), Reply(Sale::Receipt(sold + price))]
            }
            Order::Close => vec![Publish(Sale::Closed), Complete],
        })
    }

    fn evolve(sold: u32, event: &EventOf<Self>) -> u32 {
        match event {
            Event::Published(Sale::Sold(price)) => sold + price,
            _ => sold,
        }
    }
}

/// Adds up the sales.
struct Books;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Entry {
    Earned(u32),
}

impl Process for Books {
    const NAME: &'static str = "books";
    type Input = Entry;
    type Output = Entry;
    type State = u32;

    fn route(_: &Entry) -> Option<String> {
        Some("2026".into())
    }

    fn decide(_: &Entry, _: &u32) -> Result<Actions<Self>, Refused> {
        Ok(vec![])
    }

    fn evolve(sum: u32, event: &EventOf<Self>) -> u32 {
        match event {
            Event::InitiatedBy(Entry::Earned(it)) | Event::Received(Entry::Earned(it)) => sum + it,
            _ => sum,
        }
    }
}

struct Nobody;

impl<P: Process> Execute<P> for Nobody {
    async fn execute(&self, _: P::Output, _: &str) -> Result<Option<P::Input>, Failure> {
        Ok(None)
    }
}

const SALES: Queue<Published> = Queue::named("sales");

fn earned(sale: Sale) -> Option<Entry> {
    let Sale::Sold(price) = sale else { return None };
    Some(Entry::Earned(price))
}

fn processes(lab: &Lab) -> Processes {
    let processes = Processes::new(lab.store.clone()).with::<Shop>(Nobody).with::<Books>(Nobody);
    processes.subscribe::<Shop>(SALES).follow::<Shop, Books>(earned)
}

impl Lab {
    async fn sales(&self) -> Vec<Published> {
        let queue = queue_address("sales").unwrap().id();
        let found =
            self.store.queue_messages(queue, DueCursor::START, Timestamp::MAX, 100).await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|it| it.message).collect();
        found.sort_by_key(|it| it.position);
        found.iter().map(|it| serde_json::from_str(it.data.as_str()).unwrap()).collect()
    }
}

laws!(
    published_outputs_reach_the_queues_and_processes_that_subscribe,
    hole_12_a_reply_is_kept_for_a_repetition,
);

async fn published_outputs_reach_the_queues_and_processes_that_subscribe(lab: Lab) {
    let processes = processes(&lab);
    for (price, key) in [(3, "a"), (4, "b"), (4, "b")] {
        processes.input::<Shop>(&Order::Buy(price), Some(key)).await.unwrap();
    }
    processes.input::<Shop>(&Order::Close, None).await.unwrap();
    let sales = lab.sales().await;
    let outputs: Vec<Sale> = sales.iter().map(|it| it.output::<Shop>().unwrap()).collect();
    assert_eq!(outputs, [Sale::Sold(3), Sale::Sold(4), Sale::Closed], "each once, in order");
    assert!(sales.iter().all(|it| (&*it.process, &*it.instance) == ("shop", "corner")));
    let dispatcher = dispatcher(&lab).route(processes.clone()).start().await.unwrap();
    dispatcher.settled().await;
    dispatcher.stop().await;
    let books = processes.look("books", "2026").await.unwrap().unwrap();
    assert_eq!(books.state, 7);
}

async fn hole_12_a_reply_is_kept_for_a_repetition(lab: Lab) {
    let first = processes(&lab).input::<Shop>(&Order::Buy(3), Some("ann")).await.unwrap();
    let reply = first.reply.unwrap();
    assert_eq!((reply.message_type.as_str(), &reply.data), ("Receipt", &3.into()));
    // Another caller asks, the shop closes, and the process crashes: the first caller is gone.
    let other = processes(&lab).input::<Shop>(&Order::Buy(4), Some("bob")).await.unwrap();
    assert_eq!(other.reply.unwrap().data, 7);
    processes(&lab).input::<Shop>(&Order::Close, None).await.unwrap();
    let again = processes(&lab).input::<Shop>(&Order::Buy(3), Some("ann")).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.reply, Some(reply), "it is that of the first time");
    let late = processes(&lab).input::<Shop>(&Order::Buy(5), Some("cid")).await.unwrap();
    assert!(late.ignored && late.reply.is_none(), "there is no caller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_output_reaches_another_process_once_wherever_the_program_ends() {
    let program = || {
        let builder = App::new("test").process::<Shop>(Nobody).process::<Books>(Nobody);
        builder.follow::<Shop, Books>(earned)
    };
    let survived = assert_survives_crashes(program, async |app| {
        app.processes().input::<Shop>(&Order::Buy(3), Some("a")).await?;
        app.processes().input::<Shop>(&Order::Buy(4), Some("b")).await?;
        app.settle().await;
        Ok(app.processes().look("books", "2026").await?.map(|it| it.state))
    });
    assert!(4 < survived.await);
}
