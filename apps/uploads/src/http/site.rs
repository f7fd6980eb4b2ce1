//! Whom the application serves with what, and the one function that lets somebody in.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use steadfast_core::{BucketHandle, Objects, Tokens};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::Connect;

use super::problem::Problem;
use crate::is_name;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// The agents of organizations.
    pub objects: Objects,
    /// The images.
    pub uploads: BucketHandle,
    /// Who may come in.
    pub tokens: Tokens,
    /// What an image may be.
    pub limits: ImageLimits,
    /// Who looks at images before they are stored, and makes small copies: a few at a time.
    pub pool: Pool,
    /// Small copies that were made.
    pub thumbnails: Copies,
    /// How a live connection is made.
    pub connect: Connect,
    /// What there is to say about the classifier.
    pub notice: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// What somebody wants to do.
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
