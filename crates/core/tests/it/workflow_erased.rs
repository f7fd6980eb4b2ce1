//! A run that is deleted while it is driven.

use steadfast_core::{App, Ctx, Result, Workflow, workflow::RunQuery};

use crate::play::until;

/// A run with many steps.
struct Long;

impl Workflow for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, _: ()) -> Result<()> {
        for _ in 0..200 {
            let body = async || {
                tokio::task::yield_now().await;
                Ok(())
            };
            ctx.step("s", body).await?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_erased_while_it_is_driven_is_let_go() {
    let app = App::new("test").workflow(Long).test().await.unwrap();
    for number in 0..200 {
        let id = format!("r{number}");
        app.start(Long::at(&id), ()).await.unwrap();
        let (runs, name) = (app.runs().clone(), id.clone());
        let ends = tokio::spawn(async move { runs.terminate("long", &name).await });
        let is_deleted = async || app.runs().delete("long", &id).await.is_ok();
        until("it is deleted", is_deleted).await;
        // It may have ended by itself.
        let _ = ends.await.unwrap();
    }
    app.settle().await;
    let all = RunQuery { workflow: "long".into(), limit: 9, ..RunQuery::default() };
    assert_eq!(app.runs().list(&all).await.unwrap().items, []);
}
