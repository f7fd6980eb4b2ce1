//! Ordered commands with a schedule, and messages at the edge of what JSON can represent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Failure,
    process::{Action::*, Actions, EventOf, Execute, Process, Processes, Refused},
    store::{EntityKind, State},
};

use crate::{
    handlers::dispatcher,
    lab::{self, Lab},
};

struct Bell;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Input {
    Ring(f64),
    Later,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Output {
    Strike(u32),
}

/// A state that JSON cannot represent: its keys are not texts.
type Strange = BTreeMap<Vec<u8>, u8>;

impl Process for Bell {
    const NAME: &'static str = "bell";
    const ORDERED: bool = true;
    type Input = Input;
    type Output = Output;
    type State = Strange;

    fn route(_: &Input) -> Option<String> {
        Some("1".into())
    }

    fn decide(input: &Input, _: &Strange) -> Result<Actions<Self>, Refused> {
        Ok(match input {
            Input::Ring(_) => vec![
                Schedule(Duration::from_mins(10), Input::Later),
                Send(Output::Strike(1)),
                Send(Output::Strike(2)),
            ],
            Input::Later => vec![],
            Input::Stop => vec![Schedule(Duration::from_mins(1), Input::Later), Complete],
        })
    }

    fn evolve(mut state: Strange, _: &EventOf<Self>) -> Strange {
        state.insert(vec![1], 1);
        state
    }
}

#[derive(Clone, Default)]
struct Struck(Arc<Mutex<Vec<u32>>>);

impl Execute<Bell> for Struck {
    async fn execute(
        &self,
        Output::Strike(number): Output,
        _: &str,
    ) -> Result<Option<Input>, Failure> {
        self.0.lock().unwrap().push(number);
        Ok(None)
    }
}

laws!(
    a_schedule_does_not_hold_up_the_commands_of_an_ordered_process,
    a_message_that_cannot_be_read_back_is_refused_before_it_is_recorded,
    a_state_that_cannot_be_written_down_does_not_keep_an_instance_from_ending,
);

async fn a_schedule_does_not_hold_up_the_commands_of_an_ordered_process(lab: Lab) {
    let struck = Struck::default();
    let processes = Processes::new(lab.store.clone()).with::<Bell>(struck.clone());
    let dispatcher = dispatcher(&lab).route(processes.clone()).start().await.unwrap();
    processes.input::<Bell>(&Input::Ring(1.0), None).await.unwrap();
    dispatcher.settled().await;
    assert_eq!(*struck.0.lock().unwrap(), [1, 2]);
    dispatcher.stop().await;
}

async fn a_message_that_cannot_be_read_back_is_refused_before_it_is_recorded(lab: Lab) {
    let processes = Processes::new(lab.store.clone()).with::<Bell>(Struck::default());
    // JSON cannot represent it: it would become null and could never be read again.
    let error = processes.input::<Bell>(&Input::Ring(f64::NAN), None).await.unwrap_err();
    assert_eq!(error.code(), "malformed_message");
    assert_eq!(lab.store.read_all(0, 10).await.unwrap(), []);
}

async fn a_state_that_cannot_be_written_down_does_not_keep_an_instance_from_ending(lab: Lab) {
    let processes = || Processes::new(lab.store.clone()).with::<Bell>(Struck::default());
    for _ in 0..150 {
        processes().input::<Bell>(&Input::Later, None).await.unwrap();
    }
    processes().input::<Bell>(&Input::Stop, None).await.unwrap();
    assert!(processes().input::<Bell>(&Input::Later, None).await.unwrap().ignored);
    // A schedule of the decision that ends the instance is recorded, and never due.
    let stream = lab::address_of(EntityKind::Process, "bell", "1");
    let pending = lab.store.pending(Some(stream.id()), 0, 10).await.unwrap();
    assert_eq!(pending, []);
    let messages = lab.store.read_stream(stream.id(), 150, 10).await.unwrap();
    let scheduled = messages.iter().find(|it| it.action == "schedule").unwrap();
    assert!(!matches!(scheduled.state, Some(State::Pending { .. })));
}
