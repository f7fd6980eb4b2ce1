//! A workflow whose types are forgotten: JSON in, JSON out.

use std::{pin::Pin, sync::Arc};

use serde_json::Value;

use super::{Workflow, ctx::Ctx, record::Key};
use crate::{Error, Result};

pub(super) type Running = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;
pub(super) type Erased = Arc<dyn Fn(Ctx, Value) -> Running + Send + Sync>;

pub(super) fn erase<W: Workflow>(workflow: W) -> Erased {
    let workflow = Arc::new(workflow);
    Arc::new(move |ctx, input| {
        let workflow = workflow.clone();
        Box::pin(async move {
            let input = serde_json::from_value(input).map_err(|error| {
                let text = format!("the input is not what `{}` takes: {error}", W::NAME);
                Error::terminal(text).with_code("malformed_input")
            })?;
            let output = workflow.run(&ctx, input).await?;
            let key = Key { scope: "".into(), kind: "the run".into(), name: "".into(), count: 1 };
            super::record::encode(&key, &output)
        })
    })
}
