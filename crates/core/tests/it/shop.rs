//! A small process for tests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Failure,
    process::{Action::*, Actions, EventOf, Execute, Process, Refused},
};

/// An order: paid in time it ships, else it expires; its status can be queried.
pub(crate) struct Order;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
pub(crate) enum Input {
    Place { order_id: String, items: u32 },
    Paid { order_id: String },
    Shipped { order_id: String },
    Expire { order_id: String },
    Ask { order_id: String },
    Once { order_id: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
pub(crate) enum Output {
    Placed { order_id: String },
    Ship { order_id: String, items: u32 },
    Done { order_id: String },
    Expired { order_id: String },
    Status { paid: bool },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    items: u32,
    paid: bool,
    #[serde(default)]
    once: bool,
}

impl Process for Order {
    const NAME: &'static str = "order";
    type Input = Input;
    type Output = Output;
    type State = Known;

    fn route(input: &Input) -> Option<String> {
        let (Input::Place { order_id, .. }
        | Input::Paid { order_id }
        | Input::Shipped { order_id }
        | Input::Expire { order_id }
        | Input::Ask { order_id }
        | Input::Once { order_id }) = input;
        (!order_id.is_empty()).then(|| order_id.clone())
    }

    fn decide(input: &Input, known: &Known) -> Result<Actions<Self>, Refused> {
        Ok(match input.clone() {
            Input::Place { items: 0, .. } => return Err(Refused::because("an empty order")),
            Input::Place { order_id, .. } => {
                let expire = Input::Expire { order_id: order_id.clone() };
                vec![Publish(Output::Placed { order_id }), Schedule(MINUTE, expire)]
            }
            Input::Paid { .. } if known.items == 0 => return Err(Refused::because("no order")),
            Input::Paid { .. } if known.paid => vec![],
            Input::Paid { order_id } => vec![Send(Output::Ship { order_id, items: known.items })],
            Input::Shipped { order_id } => vec![Publish(Output::Done { order_id }), Complete],
            Input::Expire { .. } if known.paid => vec![],
            Input::Expire { order_id } => vec![Publish(Output::Expired { order_id }), Complete],
            Input::Once { .. } if known.once => return Err(Refused::because("only once")),
            Input::Once { .. } => vec![],
            Input::Ask { .. } => vec![Reply(Output::Status { paid: known.paid })],
        })
    }

    fn evolve(mut known: Known, event: &EventOf<Self>) -> Known {
        use steadfast_core::process::Event::*;
        match event {
            InitiatedBy(Input::Place { items, .. }) => known.items = *items,
            Received(Input::Paid { .. }) => known.paid = true,
            InitiatedBy(Input::Once { .. }) => known.once = true,
            _ => {}
        }
        known
    }

    fn is_command(input: &Input) -> bool {
        matches!(input, Input::Place { .. } | Input::Expire { .. })
    }
}

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// Ships, and records the keys.
#[derive(Clone, Default)]
pub(crate) struct Carrier {
    pub(crate) keys: Arc<Mutex<Vec<String>>>,
    pub(crate) failures: Arc<AtomicU32>,
}

impl Execute<Order> for Carrier {
    async fn execute(&self, output: Output, key: &str) -> Result<Option<Input>, Failure> {
        self.keys.lock().unwrap().push(key.into());
        if self.failures.load(Ordering::SeqCst) != 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            return Err(Failure::retry("the road is blocked"));
        }
        let Output::Ship { order_id, .. } = output else { return Ok(None) };
        Ok(Some(Input::Shipped { order_id }))
    }
}

pub(crate) fn place(id: &str) -> Input {
    Input::Place { order_id: id.into(), items: 3 }
}

pub(crate) fn once(id: &str) -> Input {
    Input::Once { order_id: id.into() }
}

pub(crate) fn paid(id: &str) -> Input {
    Input::Paid { order_id: id.into() }
}
