//! A process: pure decisions over a stream of messages. A seat is taken when it is paid for.
//!
//!     cargo run -p steadfast-examples --bin process -- --data data/process
//!     curl localhost:8787/v1/processes/booking/12a/inputs -d '{"type": "Reserve", "data": "12a"}'
//!     cargo run -p steadfast-examples --bin process -- processes show booking 12a

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

struct Booking;
struct Bank;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Input {
    Reserve(String),
    Charged(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Output {
    Charge(String),
}

impl Process for Booking {
    const NAME: &'static str = "booking";
    type Input = Input;
    type Output = Output;
    type State = bool; // Whether the seat is reserved.
    fn route(input: &Input) -> Option<String> {
        let (Input::Reserve(seat) | Input::Charged(seat)) = input;
        Some(seat.clone())
    }
    fn decide(input: &Input, is_reserved: &bool) -> Result<Actions<Self>, Refused> {
        Ok(match (input.clone(), is_reserved) {
            (Input::Reserve(seat), false) => vec![Action::Send(Output::Charge(seat))],
            (Input::Charged(_), true) => vec![Action::Complete],
            _ => return Err(Refused::because("the seat is reserved already, or not yet")),
        })
    }
    fn evolve(_: bool, _: &EventOf<Self>) -> bool {
        true // Every event comes after the reservation.
    }
}

impl Execute<Booking> for Bank {
    async fn execute(&self, output: Output, _key: &str) -> Result<Option<Input>, Failure> {
        let Output::Charge(seat) = output;
        Ok(Some(Input::Charged(seat)))
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("theatre").process::<Booking>(Bank))
}
