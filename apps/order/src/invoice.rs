//! An invoice: three steps, one after the other. The smallest whole workflow.

use serde::{Deserialize, Serialize};
use steadfast_core::{Ctx, Error, Result, Workflow};

/// Invoices.
#[derive(Debug)]
pub struct Invoice;

/// The input of an invoice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InvoiceInput {
    /// The customer.
    pub customer: String,
    /// The amounts, in cents.
    pub amounts: Vec<i64>,
}

/// The invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceOutput {
    /// Its number.
    pub number: String,
    /// The amount to pay, in cents.
    pub total: i64,
    /// The text to the customer.
    pub letter: String,
}

impl Workflow for Invoice {
    const NAME: &'static str = "invoice";
    type Input = InvoiceInput;
    type Output = InvoiceOutput;

    async fn run(&self, ctx: &Ctx, invoice: InvoiceInput) -> Result<InvoiceOutput> {
        let InvoiceInput { customer, amounts } = &invoice;
        let number = ctx.step("number", async || Ok(format!("I-{}", ctx.id()))).await?;
        let total = ctx.step("total", async || sum(amounts)).await?;
        let letter = ctx.step("letter", async || Ok(format!("{customer} owes {total}"))).await?;
        Ok(InvoiceOutput { number, total, letter })
    }
}

fn sum(amounts: &[i64]) -> Result<i64> {
    let total = amounts.iter().try_fold(0_i64, |sum, it| sum.checked_add(*it));
    total.ok_or_else(|| Error::terminal("the total is too large").with_code("too_large"))
}
