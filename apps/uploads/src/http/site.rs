//! The state of the routes, and the one function that authorizes a request.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use steadfast_core::{BucketHandle, Objects, Tokens};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::Connect;

use super::problem::Problem;
use crate::is_name;

/// The state of the routes. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// The agents of organizations.
    pub objects: Objects,
    /// The images.
    pub uploads: BucketHandle,
    /// The tokens of organizations.
    pub tokens: Tokens,
    /// Limits of an image.
    pub limits: ImageLimits,
    /// Threads that inspect images before they are stored, and make small copies.
    pub pool: Pool,
    /// Small copies that were made.
    pub thumbnails: Copies,
    /// How a live connection is made.
    pub connect: Connect,
    /// A notice about the classifier.
    pub notice: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
}

/// The cookie that a browser has instead of a header.
pub(super) const COOKIE: &str = "steadfast-token";

impl Site {
    /// Lets somebody in, or says why not. Every route asks here, and nowhere else.
    pub(super) async fn admit(
        &self,
        credentials: &HeaderMap,
        organization: &str,
        _: Action,
    ) -> Result<(), Problem> {
        if !is_name(organization) {
            return Err(Problem::unknown(format!("organization `{organization}` does not exist")));
        }
        Ok(self.tokens.check(credential(credentials), organization).await?)
    }
}

fn credential(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|it| it.strip_prefix("Bearer "));
    let cookie = || {
        let mut pairs = text(header::COOKIE)?.split("; ").filter_map(|it| it.split_once('='));
        pairs.find(|(name, _)| *name == COOKIE).map(|it| it.1)
    };
    bearer.or_else(cookie).map(str::trim)
}
