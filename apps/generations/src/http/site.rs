//! The state of the routes.

use std::sync::Arc;

use steadfast_core::{
    BucketHandle, Object, Objects, Places,
    store::{Clock, Entropy},
};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::{Connect, Problem};

use crate::{Changed, GenerationManager, Providers};

/// The state of the routes. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// Managers and libraries.
    pub objects: Objects,
    /// The artifacts.
    pub artifacts: BucketHandle,
    /// The providers.
    pub providers: Arc<Providers>,
    /// Where webhooks come in, if they can: the URL of the providers, or that of the server.
    pub webhooks: Option<String>,
    /// How a live connection is made.
    pub connect: Connect,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, for ids.
    pub entropy: Arc<dyn Entropy>,
    /// Threads that make small copies.
    pub pool: Pool,
    /// Places for images in memory that small copies are made of. One workspace has at most half.
    pub places: Arc<Places>,
    /// Limits of images that small copies are made of.
    pub limits: ImageLimits,
    /// Small copies that were made.
    pub copies: Copies,
}

impl Site {
    /// Delivers a change of the library to the manager, so that the caller's next read shows it.
    pub(super) async fn show(&self, changed: Changed) -> Result<(), Problem> {
        let Changed { generation, change } = changed;
        Ok(self.objects.call(GenerationManager::at(generation), change).await?)
    }
}
