//! Given, when, then: tests of a process without a store. [`Stage`] runs a whole process.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use steadfast::process::{Action::{self, *}, Actions, Event, Process, Refused, kit::given};
//! # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! # #[serde(tag = "type", content = "data")]
//! # enum Input { Open { id: String }, Close { id: String } }
//! # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! # #[serde(tag = "type", content = "data")]
//! # enum Output { Closed }
//! # struct Door;
//! # impl Process for Door {
//! #     const NAME: &'static str = "door";
//! #     type Input = Input;
//! #     type Output = Output;
//! #     type State = bool;
//! #     fn route(input: &Input) -> Option<String> {
//! #         let (Input::Open { id } | Input::Close { id }) = input;
//! #         Some(id.clone())
//! #     }
//! #     fn decide(input: &Input, open: &bool) -> Result<Actions<Self>, Refused> {
//! #         match input {
//! #             Input::Open { .. } => Ok(vec![]),
//! #             Input::Close { .. } if !open => Err(Refused::because("it is not open")),
//! #             Input::Close { .. } => Ok(vec![Publish(Output::Closed), Complete]),
//! #         }
//! #     }
//! #     fn evolve(open: bool, event: &Event<Input, Output>) -> bool {
//! #         open || matches!(event, Event::InitiatedBy(Input::Open { .. }))
//! #     }
//! # }
//! # let open = || Input::Open { id: "1".into() };
//! # let close = || Input::Close { id: "1".into() };
//! given::<Door>([]).when(open()).then_nothing();
//! given::<Door>([open()]).when(close()).then([Publish(Output::Closed), Complete]);
//! given::<Door>([]).when(close()).then_refused("it is not open");
//! ```

pub use super::stage::Stage;
use super::{Action, Actions, Event, Process, Refused, translate};

/// A process that has decided some inputs.
pub struct Given<P: Process> {
    state: P::State,
    begun: bool,
    completed: bool,
}

/// The decision of a process.
pub struct When<P: Process> {
    decided: Result<Actions<P>, Refused>,
}

/// A process that has decided these inputs, in this order.
///
/// # Panics
///
/// If it refuses one of them.
#[track_caller]
pub fn given<P: Process>(inputs: impl IntoIterator<Item = P::Input>) -> Given<P> {
    let mut given = Given { state: P::State::default(), begun: false, completed: false };
    for input in inputs {
        let actions = given
            .decide(&input)
            .unwrap_or_else(|refused| panic!("given {input:?}, which is refused: {refused}"));
        given.take(input, actions);
    }
    given
}

/// A process whose stream holds these events.
pub fn given_events<P: Process>(
    events: impl IntoIterator<Item = Event<P::Input, P::Output>>,
) -> Given<P> {
    let mut given = Given { state: P::State::default(), begun: false, completed: false };
    events.into_iter().for_each(|event| given.apply(&event));
    given
}

impl<P: Process> Given<P> {
    /// Gives it one more input.
    pub fn when(self, input: P::Input) -> When<P> {
        When { decided: self.decide(&input) }
    }

    /// The state it is in.
    pub fn state(&self) -> &P::State {
        &self.state
    }

    /// After completion inputs are ignored, whatever `decide` would return.
    fn decide(&self, input: &P::Input) -> Result<Actions<P>, Refused> {
        if self.completed { Ok(Vec::new()) } else { P::decide(input, &self.state) }
    }

    fn take(&mut self, input: P::Input, actions: Actions<P>) {
        if !self.completed {
            let events = translate::<P>(!self.begun, input, actions);
            events.iter().for_each(|event| self.apply(event));
        }
    }

    fn apply(&mut self, event: &Event<P::Input, P::Output>) {
        self.begun = true;
        self.completed |= *event == Event::Completed;
        self.state = P::evolve(std::mem::take(&mut self.state), event);
    }
}

impl<P: Process> When<P> {
    /// Asserts that it decides this.
    #[track_caller]
    pub fn then(self, actions: impl IntoIterator<Item = Action<P::Input, P::Output>>) {
        assert_eq!(self.decided, Ok(actions.into_iter().collect()));
    }

    /// Asserts that it records the input and decides nothing.
    #[track_caller]
    pub fn then_nothing(self) {
        self.then([]);
    }

    /// Asserts that it refuses, with a reason that contains this.
    #[track_caller]
    pub fn then_refused(self, reason: &str) {
        match self.decided {
            Err(refused) if refused.reason.contains(reason) => {}
            other => panic!("expected a refusal with `{reason}`, got {other:?}"),
        }
    }
}
