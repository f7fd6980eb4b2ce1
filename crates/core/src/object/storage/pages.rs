//! Pages that were not loaded with their object: they are read when a turn needs them.
//!
//! Such a page has an image that is current, and no other one is written while the page is not in
//! memory: images are written of pages that turns have changed since the last ones, and a turn that
//! changes a page reads it first. This holds for images that the object writes and for those of a
//! concurrent sweep. Its image is therefore not newer than the base that the object was loaded
//! with; a newer one shows that another owner has changed the object.

use std::{ops::RangeInclusive, slice::from_ref, sync::Arc, time::Duration};

use parking_lot::Mutex;
use steadfast_store::{self as store, Base, PageImage, Store, StoreError};
use steadfast_vfs::{Page, Source};
use tokio::runtime::Handle as Tokio;

use super::restore::{self, Restored};
use crate::object::CallError;

/// Maximum wait of a turn for a page: the turn blocks its thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the pages of an object that are not in memory.
pub(in crate::object) struct StoredPages {
    store: Arc<dyn Store>,
    tokio: Tokio,
    object: store::Address,
    /// The base of the images when the object was loaded.
    base: Base,
    fault: Mutex<Option<CallError>>,
}

impl StoredPages {
    /// `None` if all pages of an object are in memory.
    pub(in crate::object) fn of(
        store: &Arc<dyn Store>,
        tokio: &Tokio,
        object: &store::Address,
        restored: &Restored,
    ) -> Option<Arc<Self>> {
        let head = restored.head.filter(|_| restored.pages.iter().any(Option::is_none))?;
        let (store, tokio) = (store.clone(), tokio.clone());
        let (object, base, fault) = (object.clone(), head.base, Mutex::default());
        Some(Arc::new(Self { store, tokio, object, base, fault }))
    }

    /// Why a page could not be read, if one could not.
    pub(in crate::object) fn fault(&self) -> Option<CallError> {
        self.fault.lock().clone()
    }

    async fn read(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, CallError> {
        let images = self.store.images(self.object.id(), from_ref(&pages)).await?;
        let detail = match self.check(&images, pages) {
            Ok(pages) => return Ok(pages),
            Err(detail) => detail,
        };
        let object = self.object.to_string();
        let newest = images.iter().map(|it| it.seq).max().unwrap_or(0);
        let is_ours = |head: store::Head| {
            head.base.number == self.base.number && (newest <= self.base.seq || head.seq < newest)
        };
        if self.store.head(self.object.id()).await?.is_some_and(is_ours) {
            tracing::error!(object, error = %detail, "object is damaged and out of service");
            return Err(CallError::Corrupt { object, detail });
        }
        Err(CallError::Lost { object, detail: format!("another owner changed it ({detail})") })
    }

    fn check(&self, images: &[PageImage], pages: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
        let mut images = images.iter();
        let next = |number: u32| {
            let image = images.next().filter(|it| it.page == number);
            let image = image.ok_or_else(|| format!("the image of page {number} is missing"))?;
            if self.base.seq < image.seq {
                return Err(format!("page {number} is of a later turn"));
            }
            restore::open(image)
        };
        pages.map(next).collect()
    }
}

impl Source for StoredPages {
    fn load(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
        // Threads that run turns may block. A thread that runs async tasks may not, and never calls
        // this.
        let read = match Tokio::try_current() {
            Err(_) => self.tokio.block_on(async {
                let read = tokio::time::timeout(PATIENCE, self.read(pages)).await;
                let late = || StoreError::Unavailable { reason: "it does not answer".into() };
                read.unwrap_or_else(|_| Err(late().into()))
            }),
            Ok(_) => {
                Err(StoreError::Unavailable { reason: "read on an async thread".into() }.into())
            }
        };
        read.map_err(|error: CallError| {
            let text = error.to_string();
            self.fault.lock().get_or_insert(error);
            text
        })
    }
}
