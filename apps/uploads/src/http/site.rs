//! The state of the routes, and the one function that authorizes a request.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use steadfast_core::{BucketHandle, Denied, Objects, TokenError, Tokens};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::{Connect, Problem};

use crate::{IMAGE_NOT_FOUND, is_name};

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

pub(super) fn unknown(name: &str) -> Problem {
    Problem::not_found(IMAGE_NOT_FOUND, format!("image `{name}` does not exist"))
}

pub(super) fn denied(error: TokenError) -> Problem {
    let (status, code) = match &error {
        TokenError::Denied(Denied::Unknown) => (StatusCode::UNAUTHORIZED, "token_needed"),
        TokenError::Denied(Denied::Foreign) => (StatusCode::FORBIDDEN, "token_foreign"),
        TokenError::Organization { .. } => (StatusCode::BAD_REQUEST, "invalid_organization"),
        TokenError::Repeated { .. } | TokenError::KeyReused { .. } => {
            (StatusCode::CONFLICT, "key_reused")
        }
        TokenError::Store(error) => (StatusCode::SERVICE_UNAVAILABLE, error.code()),
    };
    Problem::new(status, code, error.to_string())
}

impl Site {
    /// Lets somebody in, or says why not. Every route asks here, and nowhere else.
    pub(super) async fn admit(
        &self,
        credentials: &HeaderMap,
        organization: &str,
        _: Action,
    ) -> Result<(), Problem> {
        if !is_name(organization) {
            let detail = format!("organization `{organization}` does not exist");
            return Err(Problem::not_found("organization_not_found", detail));
        }
        self.tokens.check(credential(credentials), organization).await.map_err(denied)
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
