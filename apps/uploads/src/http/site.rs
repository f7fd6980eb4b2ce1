//! The state of the routes, and the one function that compares the organization of a request.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use steadfast_core::{BucketHandle, Objects, Places};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::{Caller, Connect, Problem};

use crate::{IMAGE_NOT_FOUND, is_name};

/// The state of the routes. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// The agents of organizations.
    pub objects: Objects,
    /// The images.
    pub uploads: BucketHandle,
    /// The organization of the caller; `None` for the whole platform.
    pub organization: Option<String>,
    /// Limits of an image.
    pub limits: ImageLimits,
    /// Threads that inspect images before they are stored, and make small copies.
    pub pool: Pool,
    /// Places in front of the pool. One organization has at most half of them.
    pub places: Arc<Places>,
    /// Small copies that were made.
    pub thumbnails: Copies,
    /// How a live connection is made.
    pub connect: Connect,
    /// A notice about the classifier.
    pub notice: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

pub(super) fn unknown(name: &str) -> Problem {
    Problem::not_found(IMAGE_NOT_FOUND, format!("image `{name}` does not exist"))
}

impl Site {
    /// Whether the caller may use things of an organization. Every route asks here. To others an
    /// organization does not exist.
    pub(super) fn admit(&self, organization: &str) -> Result<(), Problem> {
        let is_own = self.organization.as_deref().is_none_or(|it| it == organization);
        if is_name(organization) && is_own {
            return Ok(());
        }
        let detail = format!("organization `{organization}` does not exist");
        Err(Problem::not_found("organization_not_found", detail))
    }
}

/// Handlers take the site of their caller.
impl FromRequestParts<Site> for Site {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, site).await?;
        Ok(Self { organization: caller.organization().map(str::to_owned), ..site.clone() })
    }
}
