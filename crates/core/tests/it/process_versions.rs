//! Stored messages outlive the code that wrote them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_core::{
    Failure,
    process::{Actions, Event, EventOf, Execute, Process, Processes, Refused},
};

use crate::lab::Lab;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum OldInput {
    Registered { name: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum NewInput {
    SignedUp { first: String, last: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Nothing {}

struct Old;

impl Process for Old {
    const NAME: &'static str = "guest";
    type Input = OldInput;
    type Output = Nothing;
    type State = String;

    fn route(_: &OldInput) -> Option<String> {
        Some("1".into())
    }

    fn decide(_: &OldInput, _: &String) -> Result<Actions<Self>, Refused> {
        Ok(vec![])
    }

    fn evolve(_: String, event: &EventOf<Self>) -> String {
        match event {
            Event::InitiatedBy(OldInput::Registered { name }) => name.clone(),
            _ => String::new(),
        }
    }
}

struct New;

impl Process for New {
    const NAME: &'static str = "guest";
    const SCHEMA: i32 = 2;
    const VERSION: i32 = 2;
    type Input = NewInput;
    type Output = Nothing;
    type State = String;

    fn route(_: &NewInput) -> Option<String> {
        Some("1".into())
    }

    fn decide(_: &NewInput, _: &String) -> Result<Actions<Self>, Refused> {
        Ok(vec![])
    }

    fn evolve(mut last: String, event: &EventOf<Self>) -> String {
        if let Event::InitiatedBy(it) | Event::Received(it) = event {
            let NewInput::SignedUp { last: name, .. } = it;
            last.clone_from(name);
        }
        last
    }

    fn upcast(message_type: &str, schema: i32, data: Value) -> Result<(String, Value), String> {
        match (message_type, schema) {
            ("Registered", 1) => {
                let name = data["name"].as_str().unwrap_or_default();
                let (first, last) = name.split_once(' ').ok_or("a name has two parts")?;
                Ok(("SignedUp".into(), json!({"first": first, "last": last})))
            }
            _ => Ok((message_type.into(), data)),
        }
    }
}

struct Nobody;

impl Execute<Old> for Nobody {
    async fn execute(&self, output: Nothing, _: &str) -> Result<Option<OldInput>, Failure> {
        match output {}
    }
}

impl Execute<New> for Nobody {
    async fn execute(&self, output: Nothing, _: &str) -> Result<Option<NewInput>, Failure> {
        match output {}
    }
}

laws!(
    hole_14_a_message_of_an_older_schema_is_upcast_by_its_stable_tag,
    hole_14_a_message_that_cannot_be_upcast_is_an_error_and_no_panic,
);
laws!(also on postgres: hole_14_a_message_of_an_older_schema_is_upcast_by_its_stable_tag);

async fn hole_14_a_message_of_an_older_schema_is_upcast_by_its_stable_tag(lab: Lab) {
    let old = Processes::new(lab.store.clone()).with::<Old>(Nobody);
    old.input::<Old>(&OldInput::Registered { name: "Ada Lovelace".into() }, None).await.unwrap();
    let new = Processes::new(lab.store.clone()).with::<New>(Nobody);
    assert_eq!(new.look("guest", "1").await.unwrap().unwrap().state, json!("Lovelace"));
    let input = NewInput::SignedUp { first: "Grace".into(), last: "Hopper".into() };
    new.input::<New>(&input, None).await.unwrap();
    assert_eq!(new.look("guest", "1").await.unwrap().unwrap().state, json!("Hopper"));
    let stored = lab.store.read_all(0, 10).await.unwrap();
    assert_eq!(stored.iter().map(|it| it.schema).collect::<Vec<_>>(), [1, 1, 2]);
}

async fn hole_14_a_message_that_cannot_be_upcast_is_an_error_and_no_panic(lab: Lab) {
    let old = Processes::new(lab.store.clone()).with::<Old>(Nobody);
    old.input::<Old>(&OldInput::Registered { name: "Plato".into() }, None).await.unwrap();
    let new = Processes::new(lab.store.clone()).with::<New>(Nobody);
    let error = new.look("guest", "1").await.unwrap_err();
    assert_eq!(error.code(), "corrupt");
    assert!(error.to_string().contains("a name has two parts"), "{error}");
}
