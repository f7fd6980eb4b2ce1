//! Turns a police report into a traffic fine.

mod message;

use serde::{Deserialize, Serialize};
use steadfast_core::process::{
    Action::{Complete, Send},
    Actions, Event, Process, Refused,
};

pub use self::message::{Input, Offense, Output};

/// Has a number and a code made for a speeding violation, and then the fine issued. Parking is
/// somebody else's matter.
pub struct TrafficFine;

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum State {
    /// No report yet.
    #[default]
    Initial,
    /// The fine needs a number.
    AwaitingSystemNumber { police_report_id: String },
    /// The fine needs a code.
    AwaitingManualIdentificationCode { police_report_id: String, system_number: String },
    /// It is over.
    Final,
}

impl Process for TrafficFine {
    const NAME: &'static str = "traffic-fine";
    type Input = Input;
    type Output = Output;
    type State = State;

    fn route(input: &Input) -> Option<String> {
        Some(input.police_report_id().to_owned())
    }

    fn decide(input: &Input, state: &State) -> Result<Actions<Self>, Refused> {
        match (input, state) {
            (Input::PoliceReportPublished { police_report_id, offense }, State::Initial) => {
                Ok(match offense {
                    Offense::SpeedingViolation { .. } => {
                        let police_report_id = police_report_id.clone();
                        vec![Send(Output::GenerateTrafficFineSystemNumber { police_report_id })]
                    }
                    Offense::ParkingViolation => vec![Complete],
                })
            }
            (
                Input::TrafficFineSystemNumberGenerated { number, .. },
                State::AwaitingSystemNumber { police_report_id },
            ) => Ok(vec![Send(Output::GenerateTrafficFineManualIdentificationCode {
                police_report_id: police_report_id.clone(),
                system_number: number.clone(),
            })]),
            (
                Input::TrafficFineManualIdentificationCodeGenerated { number, code, .. },
                State::AwaitingManualIdentificationCode { police_report_id, system_number },
            ) if number == system_number => {
                let issue = Output::IssueTrafficFine {
                    police_report_id: police_report_id.clone(),
                    system_number: system_number.clone(),
                    manual_identification_code: code.clone(),
                };
                Ok(vec![Send(issue), Complete])
            }
            _ => Err(refused(input, state)),
        }
    }

    fn evolve(state: State, event: &Event<Input, Output>) -> State {
        let (Event::InitiatedBy(input) | Event::Received(input)) = event else {
            return state;
        };
        match (state, input) {
            (State::Initial, Input::PoliceReportPublished { police_report_id, offense }) => {
                match offense {
                    Offense::SpeedingViolation { .. } => {
                        State::AwaitingSystemNumber { police_report_id: police_report_id.clone() }
                    }
                    Offense::ParkingViolation => State::Final,
                }
            }
            (
                State::AwaitingSystemNumber { police_report_id },
                Input::TrafficFineSystemNumberGenerated { number, .. },
            ) => State::AwaitingManualIdentificationCode {
                police_report_id,
                system_number: number.clone(),
            },
            (
                State::AwaitingManualIdentificationCode { .. },
                Input::TrafficFineManualIdentificationCodeGenerated { .. },
            ) => State::Final,
            (state, _) => state,
        }
    }
}

fn refused(input: &Input, state: &State) -> Refused {
    let came = match input {
        Input::PoliceReportPublished { .. } => "a police report".to_owned(),
        Input::TrafficFineSystemNumberGenerated { number, .. } => {
            format!("the system number `{number}`")
        }
        Input::TrafficFineManualIdentificationCodeGenerated { number, .. } => {
            format!("an identification code for the number `{number}`")
        }
    };
    let waits = match state {
        State::Initial => "waits for a police report".to_owned(),
        State::AwaitingSystemNumber { .. } => "waits for a system number".to_owned(),
        State::AwaitingManualIdentificationCode { system_number, .. } => {
            format!("waits for an identification code for the number `{system_number}`")
        }
        State::Final => "is closed".to_owned(),
    };
    let report = input.police_report_id();
    Refused::because(format!("{came} came, but the case of report `{report}` {waits}"))
}
