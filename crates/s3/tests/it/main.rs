//! The S3 API without a network: requests that are signed here, some of them invalid.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod bodies;
mod corner_cases;
mod cors;
mod limits;
mod matrix;
mod multipart;
mod permissions;
mod setup;
mod sign;
