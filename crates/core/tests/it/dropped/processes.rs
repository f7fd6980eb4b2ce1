//! Inputs of processes.

use steadfast_core::{App, Runtime};

use super::{Area, agree, dropped, each};
use crate::{
    lab::Lab,
    process_callers::{Door, Input, NoOutput},
};

pub(super) const AREAS: &[Area] =
    &[Area { file: "process/registry.rs", tried: &["input", "input_json"], others: &["look"] }];

laws!(on sqlite, postgres: an_input_is_decided_on_the_state_that_the_store_has);

fn program() -> App {
    App::new("test").process::<Door>(NoOutput)
}

/// The state of a door, and whether it can be entered.
async fn door(app: &Runtime, name: &str) -> Vec<String> {
    let entered = app.processes().input::<Door>(&Input::Enter(name.into()), None).await;
    let looked = app.processes().look("door", name).await.unwrap().map(|it| it.state);
    vec![format!("{:?}", entered.map(drop).map_err(|it| it.to_string())), format!("{looked:?}")]
}

async fn an_input_is_decided_on_the_state_that_the_store_has(lab: Lab) {
    let app = program().start(lab.store.clone()).await.unwrap();
    each(async |polls| {
        let name = format!("door {polls}");
        let (build, open) = (Input::Build(name.clone()), Input::Open(name.clone()));
        app.processes().input::<Door>(&build, None).await.unwrap();
        let opened = dropped(polls, app.processes().input::<Door>(&open, Some("open"))).await;
        agree(&app, program, async |app| door(app, &name).await).await;
        let again = app.processes().input::<Door>(&open, Some("open")).await;
        again.expect("a repetition is decided once");
        opened
    })
    .await;
    each(async |polls| {
        let (name, processes) = (format!("json {polls}"), app.processes());
        let build = Input::Build(name.clone());
        processes.input::<Door>(&build, None).await.unwrap();
        let open = processes.input_json("door", &name, "Open", name.clone().into(), None);
        let opened = dropped(polls, open).await;
        agree(&app, program, async |app| door(app, &name).await).await;
        opened
    })
    .await;
    app.stop().await;
}
