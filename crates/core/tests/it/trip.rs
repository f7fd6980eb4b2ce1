//! A workflow for the laws: its input is its program.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_core::{Ctx, Error, Result, Retry, Workflow, workflow::Either};

use crate::ledger::{AUDIT, Add};

/// The operations of a run, one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Do {
    /// A step; it fails this many times first.
    Step {
        name: String,
        fails: u32,
    },
    /// A step that fails for good; the run continues.
    Refused {
        name: String,
    },
    Panics {
        name: String,
    },
    Sleep {
        seconds: u64,
    },
    Event {
        name: String,
    },
    /// An event, with a timeout.
    EventWithin {
        name: String,
        seconds: u64,
    },
    Join {
        left: Vec<Do>,
        right: Vec<Do>,
    },
    Select {
        left: Vec<Do>,
        right: Vec<Do>,
    },
    Map {
        items: Vec<Do>,
        limit: usize,
    },
    Chance,
    /// A message to a queue.
    Send {
        number: i64,
    },
    /// Progress.
    Say {
        percent: u32,
    },
}

type Going<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// The number of runs of each body, over all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trip {
    pub(crate) bodies: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Trip {
    /// The number of runs of the body of a step.
    pub(crate) fn ran(&self, name: &str) -> u32 {
        self.bodies.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    fn count(&self, name: &str) -> u32 {
        let mut bodies = self.bodies.lock().unwrap();
        let count = bodies.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn all<'a>(&'a self, ctx: &'a Ctx, things: &'a [Do]) -> Going<'a> {
        Box::pin(async move {
            let mut results = Vec::new();
            for thing in things {
                results.push(self.one(ctx, thing).await?);
            }
            Ok(results.into())
        })
    }

    async fn one(&self, ctx: &Ctx, thing: &Do) -> Result<Value> {
        Ok(match thing {
            Do::Step { name, fails } => {
                let body = async || {
                    if self.count(name) <= *fails {
                        return Err(Error::retryable(format!("{name} is not ready")));
                    }
                    Ok(json!(name))
                };
                ctx.step(name, body).retry(Retry::constant(Duration::from_secs(10))).await?
            }
            Do::Refused { name } => {
                let body = async || {
                    self.count(name);
                    Err::<Value, _>(Error::terminal("never").with_code("refused_for_good"))
                };
                json!(ctx.step(name, body).await.unwrap_err().code())
            }
            Do::Panics { name } => {
                let body = async || -> Result<Value> {
                    self.count(name);
                    panic!("as the test wanted")
                };
                json!(ctx.step(name, body).retry(Retry::NEVER).await.unwrap_err().code())
            }
            Do::Sleep { seconds } => {
                ctx.sleep("nap", Duration::from_secs(*seconds)).await?;
                json!("slept")
            }
            Do::Event { name } => ctx.event(name).await?,
            Do::EventWithin { name, seconds } => {
                let within = Duration::from_secs(*seconds);
                json!(ctx.timeout("limit", within, ctx.event::<Value>(name)).await?)
            }
            Do::Join { left, right } => {
                json!(ctx.join(self.all(ctx, left), self.all(ctx, right)).await?)
            }
            Do::Select { left, right } => {
                match ctx.select(self.all(ctx, left), self.all(ctx, right)).await {
                    Either::Left(it) => json!({ "left": it? }),
                    Either::Right(it) => json!({ "right": it? }),
                }
            }
            Do::Map { items, limit } => {
                let each = |item: Do| async move {
                    let all = self.all(ctx, std::slice::from_ref(&item)).await?;
                    Ok(all[0].clone())
                };
                json!(ctx.map(items.clone(), *limit, each).await?)
            }
            Do::Send { number } => {
                ctx.send(AUDIT, Add { by: *number }).await?;
                json!("sent")
            }
            Do::Say { percent } => {
                ctx.progress("on its way", f64::from(*percent));
                json!("said")
            }
            Do::Chance => {
                let (now, random, uuid) =
                    (ctx.now().await?, ctx.random().await?, ctx.uuid().await?);
                json!([now.0, random, uuid])
            }
        })
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = Vec<Do>;
    type Output = Value;

    async fn run(&self, ctx: &Ctx, input: Vec<Do>) -> Result<Value> {
        self.all(ctx, &input).await
    }
}
