//! Errors on the wire.

pub(crate) use steadfast_api::{Code, ProblemBody};
pub(crate) use steadfast_web::Problem;
