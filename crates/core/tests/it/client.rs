//! A process that starts runs: its executor uses a client of the program.

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Client, Ctx, Failure, Object, Result, Workflow,
    process::{Action, Actions, EventOf, Execute, Process, Refused},
    test::assert_survives_crashes,
};

use crate::lab::Lab;
use crate::ledger::{Add, Ledger, Read};

struct Club;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Input {
    Joined(String),
    Welcomed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Output {
    Welcome(String),
}

impl Process for Club {
    const NAME: &'static str = "club";
    type Input = Input;
    type Output = Output;
    type State = u32;

    fn route(_: &Input) -> Option<String> {
        Some("main".into())
    }

    fn decide(input: &Input, _: &u32) -> Result<Actions<Self>, Refused> {
        Ok(match input {
            Input::Joined(name) => vec![Action::Send(Output::Welcome(name.clone()))],
            Input::Welcomed(_) => Vec::new(),
        })
    }

    fn evolve(members: u32, _: &EventOf<Self>) -> u32 {
        members + 1
    }
}

struct Host(Client);

impl Execute<Club> for Host {
    async fn execute(
        &self,
        Output::Welcome(name): Output,
        key: &str,
    ) -> Result<Option<Input>, Failure> {
        self.0.start(Welcome::at(&name), name.clone()).await?;
        self.0.call(Ledger::at("host"), Add { by: 1 }).key(key).await?;
        Ok(Some(Input::Welcomed(name)))
    }
}

struct Welcome;

impl Workflow for Welcome {
    const NAME: &'static str = "welcome";
    type Input = String;
    type Output = String;

    async fn run(&self, ctx: &Ctx, name: String) -> Result<String> {
        ctx.call(Ledger::at("gifts"), Add { by: 5 }).await?;
        Ok(format!("welcome, {name}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_a_process_starts_is_made_once_wherever_the_process_ends() {
    let program = || {
        let app = App::new("test").object(Ledger::default()).workflow(Welcome);
        let host = Host(app.client());
        app.process::<Club>(host)
    };
    let survived = assert_survives_crashes(program, async |app| {
        app.processes().input::<Club>(&Input::Joined("ada".into()), Some("ada joins")).await?;
        app.settle().await;
        let status = app.runs().wait("welcome", "ada").await?;
        let gifts = app.call(Ledger::at("gifts"), Read).await?;
        let hosted = app.call(Ledger::at("host"), Read).await?;
        Ok((status, gifts, hosted))
    });
    assert!(8 < survived.await);
}

#[tokio::test]
async fn a_client_of_a_program_that_does_not_run_says_so() {
    let program = App::new("test").object(Ledger::default()).workflow(Welcome);
    let client = program.client();
    let error = client.start(Welcome::at("early"), "x".into()).await.unwrap_err();
    assert_eq!(error.code(), "closed");
    let lab = Lab::memory().await;
    let app = program.start(lab.store.clone()).await.unwrap();
    assert!(client.start(Welcome::at("one"), "x".into()).await.unwrap().created);
    app.stop().await;
    assert!(client.start(Welcome::at("two"), "x".into()).await.is_err());
}
