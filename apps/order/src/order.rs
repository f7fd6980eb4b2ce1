//! An order: reserves, waits for the payment, and ships; or gives the goods back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::{Ctx, Object, Result, Workflow};

use crate::{Inventory, Release, Reserve};

/// The time that an order waits for its payment.
const PAYMENT_WITHIN: Duration = Duration::from_mins(15);

/// Orders.
#[derive(Debug)]
pub struct Order;

/// The input of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderInput {
    /// Which order.
    pub order_id: String,
    /// The amount to pay, in cents.
    pub amount: i64,
}

/// The event `payment`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Payment {
    /// The paid amount, in cents.
    pub amount: i64,
}

/// The result of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderOutput {
    /// Which order.
    pub order_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The number under which it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
}

/// How an order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was paid, and is on its way.
    Shipped,
    /// It was not paid in time, or not enough.
    Released,
}

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = OrderInput;
    type Output = OrderOutput;

    async fn run(&self, ctx: &Ctx, order: OrderInput) -> Result<OrderOutput> {
        let order_id = order.order_id;
        let stock = || Inventory::at("main");
        ctx.call(stock(), Reserve { order_id: order_id.clone() }).await?;
        let payment = ctx.event::<Payment>("payment");
        match ctx.timeout("payment", PAYMENT_WITHIN, payment).await? {
            Some(paid) if order.amount <= paid.amount => {
                let tracking = ctx.step("ship", async || Ok(format!("T-{order_id}"))).await?;
                Ok(OrderOutput { order_id, outcome: Outcome::Shipped, tracking: Some(tracking) })
            }
            Some(_) | None => {
                ctx.call(stock(), Release { order_id: order_id.clone() }).await?;
                Ok(OrderOutput { order_id, outcome: Outcome::Released, tracking: None })
            }
        }
    }
}
