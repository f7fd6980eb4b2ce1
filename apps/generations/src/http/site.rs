//! Whom the application serves with what.

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, response::Response};
use steadfast::{
    BucketHandle, Objects,
    store::{Clock, Entropy},
};
use steadfast_ai::classify::{Copies, ImageLimits, Pool};

use crate::Studio;

/// Connects a request to an object of a class: as a WebSocket, or with server-sent events.
pub type Connect = Arc<
    dyn Fn(&'static str, String, Request) -> Pin<Box<dyn Future<Output = Response> + Send>>
        + Send
        + Sync,
>;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// Managers and libraries.
    pub objects: Objects,
    /// The artifacts.
    pub artifacts: BucketHandle,
    /// Who makes what.
    pub studio: Arc<Studio>,
    /// How a live connection is made.
    pub connect: Connect,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, for ids.
    pub entropy: Arc<dyn Entropy>,
    /// Who makes small copies: a few at a time.
    pub pool: Pool,
    /// What an image may be that small copies are made of.
    pub limits: ImageLimits,
    /// Small copies that were made.
    pub copies: Copies,
}
