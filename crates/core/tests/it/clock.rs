//! A wall clock that is set while a program runs: due work is not delayed.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, Object, Runtime, Workflow,
    store::{Clock, SeededEntropy, Timestamp},
    workflow::Status,
};

use crate::{
    lab::Lab,
    ledger::{AddBoth, Clockwork, Downloader, Fetch, Ledger, Read, Rung},
    play::{Play, until},
    post::{HOUR, MAIL, OTHER, Post, SECOND, mail},
};

laws!(on sqlite, postgres:
    due_work_is_done_immediately_after_a_step_before_the_start,
    due_work_is_done_immediately_after_a_step_between_commits,
    due_work_is_done_immediately_after_a_commit_under_a_clock_that_was_ahead,
    a_step_forward_during_sleeps_delivers_work_that_has_become_due,
    a_step_back_during_sleeps_stalls_nothing,
    a_step_forward_does_not_end_attempts_in_flight,
);

const STEPS: [Duration; 2] = [HOUR, Duration::from_hours(30 * 24)];
const NAP: Duration = Duration::from_mins(10);

/// A program with one of each: a consumer, a run that sleeps, an object with alarms and jobs.
struct World {
    lab: Lab,
    app: Runtime,
    post: Post,
    round: u32,
}

impl World {
    async fn on(lab: Lab) -> Self {
        let post = Post::by(&lab.clock);
        let app = start(&lab, &post).await;
        Self { lab, app, post, round: 0 }
    }

    /// The next process, for which the clock was set meanwhile.
    async fn again_at(self, at: Timestamp) -> Self {
        let Self { mut lab, app, post, round } = self;
        app.stop().await;
        lab.clock.set(at);
        lab.restart().await;
        let app = start(&lab, &post).await;
        Self { lab, app, post, round }
    }

    fn shifted(&self, step: Duration, forward: bool) -> Timestamp {
        let now = self.lab.clock.now();
        match forward {
            true => now.after(step),
            false => Timestamp(now.0 - step.as_millis() as i64),
        }
    }

    /// Requests one of each, and all of it is done without any time passing.
    async fn works(&mut self) {
        self.round += 1;
        let (round, elapsed) = (i64::from(self.round), self.lab.clock.elapsed());
        let id = format!("at-once-{round}");
        self.app.queues().send(MAIL, &mail(&id)).await.unwrap();
        self.app.queues().send(OTHER, &mail(&id)).await.unwrap();
        self.app.start(Play::at(&id), json!("at once")).await.unwrap();
        let other = "b".to_owned();
        self.app.call(Ledger::at("a"), AddBoth { other, by: 1 }).await.unwrap();
        self.app.call(Ledger::at("c"), Fetch { failures: 0 }).await.unwrap();
        let ring = Clockwork::Set { name: id.clone(), after: Duration::ZERO };
        self.app.call(Ledger::at("bell"), ring).await.unwrap();
        until("the consumer has it", async || self.post.names().contains(&id)).await;
        until("the pull gives it", async || {
            let pulled = self.app.queues().pull("other", 1, SECOND).await.unwrap();
            let leases: Vec<_> = pulled.iter().map(|it| it.lease).collect();
            self.app.queues().ack("other", &leases, &[]).await.unwrap();
            !leases.is_empty()
        })
        .await;
        let done = Status::Complete(json!("at once"));
        assert_eq!(self.app.runs().wait("play", &id).await.unwrap(), done);
        until("the other object has it", async || self.total("b").await == round).await;
        until("the outcome of the job is there", async || self.total("c").await == 7 * round).await;
        until("the alarm rings", async || self.rung().await.contains(&id)).await;
        assert_eq!(self.lab.clock.elapsed(), elapsed, "no time has passed");
    }

    async fn total(&self, name: &str) -> i64 {
        self.app.call(Ledger::at(name), Read).await.unwrap().0
    }

    async fn rung(&self) -> Vec<String> {
        let rung = self.app.call(Ledger::at("bell"), Rung).await.unwrap();
        rung.into_iter().map(|it| it.0).collect()
    }

    /// A run, an alarm, a message and a lease that end after a nap.
    async fn sleep(&mut self) -> String {
        self.round += 1;
        let id = format!("later-{}", self.round);
        self.app.queues().send_after(MAIL, &mail(&id), NAP).await.unwrap();
        self.app.start(Play::at(&id), json!("nap")).await.unwrap();
        let ring = Clockwork::Set { name: id.clone(), after: NAP };
        self.app.call(Ledger::at("bell"), ring).await.unwrap();
        self.app.queues().send(OTHER, &mail(&id)).await.unwrap();
        assert_eq!(self.app.queues().pull("other", 1, NAP).await.unwrap().len(), 1);
        until("the run sleeps", async || {
            self.app.runs().status("play", &id).await.unwrap() == Status::Waiting
        })
        .await;
        id
    }

    /// All of them have ended.
    async fn wakes(&self, id: &String) {
        until("the message comes", async || self.post.names().contains(id)).await;
        until("the run ends", async || {
            let status = self.app.runs().status("play", id).await.unwrap();
            status == Status::Complete(json!("nap"))
        })
        .await;
        until("the alarm rings", async || self.rung().await.contains(id)).await;
        until("the lease is over", async || {
            let pulled = self.app.queues().pull("other", 1, SECOND).await.unwrap();
            let leases: Vec<_> = pulled.iter().map(|it| it.lease).collect();
            self.app.queues().ack("other", &leases, &[]).await.unwrap();
            pulled.first().is_some_and(|it| it.attempt == 2)
        })
        .await;
    }

    async fn close(self) {
        let forgotten = self.app.forgotten().await.unwrap();
        assert_eq!(forgotten, Vec::<i64>::new());
        self.app.stop().await;
        self.lab.assert_sound().await;
    }
}

async fn start(lab: &Lab, post: &Post) -> Runtime {
    let play = Play::of(|ctx, _, input: Value| async move {
        if input == json!("nap") {
            ctx.sleep("nap", NAP).await?;
        }
        ctx.step("one", async || Ok(())).await?;
        Ok(input)
    });
    let builder = App::new("test").object(Ledger::default()).perform(Downloader::default());
    let builder = builder.workflow(play).consume(MAIL, post.clone()).queue(OTHER);
    let builder = builder.entropy(SeededEntropy::new(1));
    builder.start(lab.store.clone()).await.expect("the program starts")
}

async fn due_work_is_done_immediately_after_a_step_before_the_start(lab: Lab) {
    let mut world = World::on(lab).await;
    world.works().await;
    for step in STEPS {
        for forward in [true, false] {
            let at = world.shifted(step, forward);
            world = world.again_at(at).await;
            world.works().await;
        }
    }
    world.close().await;
}

async fn due_work_is_done_immediately_after_a_step_between_commits(lab: Lab) {
    let mut world = World::on(lab).await;
    for step in STEPS {
        for forward in [false, true] {
            world.lab.clock.set(world.shifted(step, forward));
            world.works().await;
        }
    }
    world.close().await;
}

async fn due_work_is_done_immediately_after_a_commit_under_a_clock_that_was_ahead(lab: Lab) {
    let mut world = World::on(lab).await;
    for step in STEPS {
        // One commit under the wrong time, and back; then also for the next process.
        world.lab.clock.set(world.shifted(step, true));
        world.app.queues().send(OTHER, &mail("ahead")).await.unwrap();
        let pulled = world.app.queues().pull("other", 1, SECOND).await.unwrap();
        let leases: Vec<_> = pulled.iter().map(|it| it.lease).collect();
        world.app.queues().ack("other", &leases, &[]).await.unwrap();
        world.lab.clock.set(world.shifted(step, false));
        world.works().await;
        let now = world.lab.clock.now();
        world = world.again_at(now).await;
        world.works().await;
    }
    world.close().await;
}

async fn a_step_forward_during_sleeps_delivers_work_that_has_become_due(lab: Lab) {
    let mut world = World::on(lab).await;
    for step in STEPS {
        let id = world.sleep().await;
        world.lab.clock.set(world.shifted(step, true));
        world.wakes(&id).await;
    }
    world.close().await;
}

async fn a_step_back_during_sleeps_stalls_nothing(lab: Lab) {
    let mut world = World::on(lab).await;
    for step in STEPS {
        let id = world.sleep().await;
        world.lab.clock.advance(NAP / 2);
        world.lab.clock.set(world.shifted(step, false));
        // A tenth slower, in the second round from the beginning.
        world.lab.clock.advance(NAP * 10 / 9 - NAP / 2 + SECOND);
        world.wakes(&id).await;
    }
    world.close().await;
}

async fn a_step_forward_does_not_end_attempts_in_flight(lab: Lab) {
    let world = World::on(lab).await;
    world.app.queues().send(MAIL, &mail("waits")).await.unwrap();
    world.post.stage.came("door").await;
    for step in STEPS {
        world.lab.clock.set(world.shifted(step, true));
        world.lab.clock.advance(SECOND);
    }
    world.post.stage.open("door", 1);
    until("it is done", async || {
        let depth = world.app.queues().page(None, 1_000).await.unwrap().queues;
        depth.iter().all(|it| it.ready == 0 && it.running == 0)
    })
    .await;
    assert_eq!(world.post.attempts()["waits"], [1]);
    world.close().await;
}
