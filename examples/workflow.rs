//! A workflow: an order that waits a week for its payment. It survives crashes between all steps.
//!
//!     cargo run -p steadfast-examples --bin workflow -- --data data/workflow
//!     curl localhost:8787/v1/workflows/order/runs -d '{"id": "o-1", "input": {"cents": 900}}'
//!     curl localhost:8787/v1/workflows/order/runs/o-1/events/payment -d '{"cents": 900}'
//!     curl 'localhost:8787/v1/workflows/order/runs/o-1?wait=10'

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

const PAYMENT: Event<Payment> = Event::named("payment");
const WEEK: Duration = Duration::from_hours(7 * 24);

struct Order;

#[derive(Serialize, Deserialize)]
struct Cart {
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u32,
}

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = Cart;
    type Output = String;

    async fn run(&self, ctx: &Ctx, cart: Cart) -> Result<String> {
        // The body of a step may call another service. Its result is recorded, and replays use the
        // record.
        let invoice = ctx.step("invoice", async || Ok(format!("invoice {}", ctx.id()))).await?;
        match ctx.timeout("payment", WEEK, ctx.wait_for(PAYMENT)).await? {
            Some(paid) if cart.cents <= paid.cents => {
                ctx.step("ship", async || Ok(format!("shipped, {invoice} is paid"))).await
            }
            Some(_) | None => {
                Err(Error::terminal(format!("{invoice} is not paid")).with_code("not_paid"))
            }
        }
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("shop").workflow(Order))
}
