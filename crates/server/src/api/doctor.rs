//! The examination, over HTTP.

use std::sync::Arc;

use steadfast_api::server::{Examination, Examine};
use steadfast_web::Problem;

use crate::{doctor::examine, server::Server};

pub(crate) async fn doctor(server: Arc<Server>, it: Examine) -> Result<Examination, Problem> {
    Ok(examine(&server, it.deep).await)
}
