//! Inputs whose callers go away, or whose outcome is unknown: the next input is decided on the
//! stored state, whatever this process has in memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Failure,
    process::{Actions, Decided, Event, EventOf, Execute, InputError, Process, Processes, Refused},
    store::{EntityKind, MemoryStore, Store},
};

use crate::{
    dropping::dropped,
    gated_store::GatedStore,
    handlers::dispatcher,
    lab::{self, Lab},
    play::until,
};

/// A door that can be entered when it is open.
pub(crate) struct Door;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub(crate) enum Input {
    Build(String),
    Open(String),
    Enter(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub(crate) enum Output {
    Nothing,
}

impl Process for Door {
    const NAME: &'static str = "door";
    type Input = Input;
    type Output = Output;
    type State = bool;

    fn route(input: &Input) -> Option<String> {
        let (Input::Build(door) | Input::Open(door) | Input::Enter(door)) = input;
        Some(door.clone())
    }

    fn decide(input: &Input, is_open: &bool) -> Result<Actions<Self>, Refused> {
        match input {
            Input::Enter(_) if !is_open => Err(Refused::because("the door is closed")),
            Input::Build(_) | Input::Open(_) | Input::Enter(_) => Ok(Vec::new()),
        }
    }

    fn evolve(is_open: bool, event: &EventOf<Self>) -> bool {
        is_open || matches!(event, Event::Received(Input::Open(_)))
    }
}

pub(crate) struct NoOutput;

impl Execute<Door> for NoOutput {
    async fn execute(&self, _: Output, _: &str) -> Result<Option<Input>, Failure> {
        Ok(None)
    }
}

laws!(on sqlite, postgres:
    an_input_whose_caller_was_dropped_is_known_to_the_next_one,
    a_delivered_input_is_decided_on_an_input_whose_caller_was_dropped,
);

fn front() -> String {
    "front".into()
}

fn processes(store: &Arc<dyn Store>) -> Processes {
    Processes::new(store.clone()).with::<Door>(NoOutput)
}

async fn give(processes: &Processes, input: Input) -> Result<Decided, InputError> {
    processes.input::<Door>(&input, None).await
}

/// Opens a door for a caller that goes away while the commit is in flight, and returns its name. A
/// door whose caller was answered at once, on a machine that paused, is of no use.
async fn open_and_leave(lab: &Lab, processes: &Processes) -> String {
    for number in 0..100 {
        let door = format!("door-{number}");
        give(processes, Input::Build(door.clone())).await.unwrap();
        if dropped(1, give(processes, Input::Open(door.clone()))).await.is_none() {
            let stream = lab::address_of(EntityKind::Process, "door", &door);
            until("the input is stored", async || lab.version(&stream).await == 3).await;
            return door;
        }
    }
    panic!("every caller was answered at once");
}

async fn an_input_whose_caller_was_dropped_is_known_to_the_next_one(lab: Lab) {
    let processes = processes(&lab.store);
    let door = open_and_leave(&lab, &processes).await;
    give(&processes, Input::Enter(door)).await.expect("the door is open");
}

async fn a_delivered_input_is_decided_on_an_input_whose_caller_was_dropped(lab: Lab) {
    let processes = processes(&lab.store);
    let dispatcher = dispatcher(&lab).route(processes.clone()).start().await.unwrap();
    let door = open_and_leave(&lab, &processes).await;
    let stream = lab::address_of(EntityKind::Process, "door", &door);
    let body = lab::json(&format!("\"{door}\""));
    let message = steadfast_core::store::Message::new("Enter", body).unwrap();
    let of_door = message.metadata(lab::json(r#"{"process":"door"}"#)).unwrap();
    let message = of_door.action("schedule").to(&stream);
    let position = lab.append(&lab::address("sender"), vec![message]).await[0];
    dispatcher.settled().await;
    let message = lab.store.message(position).await.unwrap().unwrap();
    assert_eq!(lab.store.totals().await.unwrap().dead, 0, "{:?}", message.state);
    dispatcher.stop().await;
}

#[tokio::test]
async fn an_input_after_an_unknown_outcome_is_decided_on_the_stored_state() {
    let clock = steadfast_core::store::ManualClock::at(lab::START);
    let gated = GatedStore::new(MemoryStore::new(Arc::new(clock)));
    let store: Arc<dyn Store> = gated.clone();
    let processes = processes(&store);
    give(&processes, Input::Build(front())).await.unwrap();
    gated.hold();
    let opening = {
        let processes = processes.clone();
        tokio::spawn(async move { give(&processes, Input::Open(front())).await })
    };
    gated.came().await;
    gated.lose();
    gated.let_go();
    opening.await.unwrap().expect_err("its outcome is unknown");
    give(&processes, Input::Enter(front())).await.expect("the door is open");
}
