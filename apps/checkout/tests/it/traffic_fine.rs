//! The decisions of a traffic fine.

use steadfast_checkout::traffic_fine::{Input, Offense, Output, State, TrafficFine};
use steadfast_core::process::{
    Action::{Complete, Send},
    Event, Process,
    kit::given,
    translate,
};

const REPORT: &str = "XG.96.L1.5000267/2023";
const NUMBER: &str = "PPXRG/23TV8457";
const CODE: &str = "XMfhyM";

fn report(offense: Offense) -> Input {
    Input::PoliceReportPublished { police_report_id: REPORT.into(), offense }
}

fn speeding() -> Input {
    report(Offense::SpeedingViolation { maximum_speed: "50km/h".into() })
}

fn parking() -> Input {
    report(Offense::ParkingViolation)
}

fn number() -> Input {
    Input::TrafficFineSystemNumberGenerated {
        police_report_id: REPORT.into(),
        number: NUMBER.into(),
    }
}

fn code_for(number: &str) -> Input {
    Input::TrafficFineManualIdentificationCodeGenerated {
        police_report_id: REPORT.into(),
        number: number.into(),
        code: CODE.into(),
    }
}

fn code() -> Input {
    code_for(NUMBER)
}

fn generate_number() -> Output {
    Output::GenerateTrafficFineSystemNumber { police_report_id: REPORT.into() }
}

fn generate_code() -> Output {
    Output::GenerateTrafficFineManualIdentificationCode {
        police_report_id: REPORT.into(),
        system_number: NUMBER.into(),
    }
}

fn issue() -> Output {
    Output::IssueTrafficFine {
        police_report_id: REPORT.into(),
        system_number: NUMBER.into(),
        manual_identification_code: CODE.into(),
    }
}

#[test]
fn speeding_asks_for_a_system_number() {
    given::<TrafficFine>([]).when(speeding()).then([Send(generate_number())]);
}

#[test]
fn the_system_number_asks_for_a_code() {
    given::<TrafficFine>([speeding()]).when(number()).then([Send(generate_code())]);
}

#[test]
fn the_code_issues_the_fine_and_completes() {
    given::<TrafficFine>([speeding(), number()]).when(code()).then([Send(issue()), Complete]);
}

#[test]
fn parking_completes_at_once() {
    given::<TrafficFine>([]).when(parking()).then([Complete]);
    assert_eq!(*given::<TrafficFine>([parking()]).state(), State::Final);
}

#[test]
fn what_comes_after_completion_is_ignored() {
    for late in [speeding(), number(), code()] {
        given::<TrafficFine>([parking()]).when(late.clone()).then_nothing();
        given::<TrafficFine>([speeding(), number(), code()]).when(late).then_nothing();
    }
}

#[test]
fn what_comes_too_early_is_refused() {
    given::<TrafficFine>([]).when(number()).then_refused("waits for a police report");
    given::<TrafficFine>([]).when(code()).then_refused("waits for a police report");
    given::<TrafficFine>([speeding()]).when(code()).then_refused("waits for a system number");
}

#[test]
fn what_comes_twice_is_refused() {
    given::<TrafficFine>([speeding()]).when(speeding()).then_refused("waits for a system number");
    given::<TrafficFine>([speeding(), number()])
        .when(number())
        .then_refused("waits for an identification code");
}

#[test]
fn a_code_for_another_number_is_refused() {
    given::<TrafficFine>([speeding(), number()]).when(code_for("other")).then_refused(
        "an identification code for the number `other` came, but the case of report \
         `XG.96.L1.5000267/2023` waits for an identification code for the number `PPXRG/23TV8457`",
    );
}

#[test]
fn a_closed_case_refuses_everything() {
    for late in [speeding(), parking(), number(), code()] {
        let refused = TrafficFine::decide(&late, &State::Final).unwrap_err();
        assert!(refused.reason.ends_with("is closed"), "{refused}");
    }
}

#[test]
fn the_stream_of_a_speeding_fine_is_that_of_the_note() {
    let mut state = State::default();
    let mut stream = Vec::new();
    for input in [speeding(), number(), code()] {
        let actions = TrafficFine::decide(&input, &state).unwrap();
        let events = translate::<TrafficFine>(stream.is_empty(), input, actions);
        state = events.iter().fold(state, TrafficFine::evolve);
        stream.extend(events);
    }
    assert_eq!(state, State::Final);
    assert_eq!(
        stream,
        [
            Event::Began,
            Event::InitiatedBy(speeding()),
            Event::Sent(generate_number()),
            Event::Received(number()),
            Event::Sent(generate_code()),
            Event::Received(code()),
            Event::Sent(issue()),
            Event::Completed,
        ]
    );
}

#[test]
fn own_decisions_do_not_change_the_state() {
    let states = [
        State::Initial,
        State::AwaitingSystemNumber { police_report_id: REPORT.into() },
        State::AwaitingManualIdentificationCode {
            police_report_id: REPORT.into(),
            system_number: NUMBER.into(),
        },
        State::Final,
    ];
    for state in states {
        let events = [
            Event::Began,
            Event::Replied(issue()),
            Event::Sent(generate_number()),
            Event::Published(generate_code()),
            Event::Scheduled(std::time::Duration::ZERO, speeding()),
            Event::Completed,
        ];
        for event in events {
            assert_eq!(TrafficFine::evolve(state.clone(), &event), state, "{event:?}");
        }
    }
}

#[test]
fn every_input_goes_to_the_case_of_its_report() {
    for input in [speeding(), parking(), number(), code()] {
        assert_eq!(TrafficFine::route(&input), Some(REPORT.to_owned()), "{input:?}");
        assert!(!TrafficFine::is_command(&input), "{input:?}");
    }
}
