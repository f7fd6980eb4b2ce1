//! Where the contents of blobs are stored, and the declared buckets of a program.

use std::{path::PathBuf, sync::Arc};

use steadfast_bucket::{
    Blobs, BucketError, BucketName, BucketOptions, BucketSettings, Buckets, FileBlobs, account,
};
use steadfast_store::{Entropy, Store};

use super::BucketSpec;

/// Where the contents of blobs are stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum BlobLocation {
    /// The program has no buckets.
    #[default]
    None,
    /// In a folder.
    Folder(PathBuf),
    /// In a folder that is only read.
    ReadOnly(PathBuf),
    /// In this store of blobs.
    Given(Arc<dyn Blobs>),
}

/// The buckets that a program declares.
#[derive(Default)]
pub(crate) struct BucketDeclarations {
    pub(crate) specs: Vec<BucketSpec>,
    pub(crate) location: BlobLocation,
    pub(crate) options: BucketOptions,
}

impl BucketDeclarations {
    /// Opens the buckets.
    pub(crate) async fn open(
        self,
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Option<Buckets>, BucketError> {
        let blobs: Arc<dyn Blobs> = match self.location {
            BlobLocation::None => match self.specs.first() {
                None => return Ok(None),
                Some(spec) => {
                    let reason = format!(
                        "bucket `{}` has no place for its blobs; say where with \
                         `App::blob_folder`",
                        spec.bucket.name()
                    );
                    return Err(BucketError::Files { reason });
                }
            },
            BlobLocation::Folder(folder) => {
                let account = account(&*store, &*entropy).await?;
                let open = move || FileBlobs::open(folder, &account);
                let opened = tokio::task::spawn_blocking(open).await;
                let failed = |it: tokio::task::JoinError| it.to_string();
                Arc::new(opened.map_err(|it| BucketError::Files { reason: failed(it) })??)
            }
            BlobLocation::ReadOnly(folder) => {
                let blobs = Arc::new(FileBlobs::open_read_only(folder));
                return Ok(Some(Buckets::builder(store).open_read_only(blobs).await?));
            }
            BlobLocation::Given(blobs) => blobs,
        };
        let builder = Buckets::builder(store).entropy(entropy).options(self.options);
        Ok(Some(builder.open(blobs).await?))
    }
}

impl BucketSpec {
    /// Creates or updates the bucket as it is declared. Unchanged settings are not written again.
    #[steadfast_store::boxed]
    pub async fn declare(&self, buckets: &Buckets) -> Result<(), BucketError> {
        let name = BucketName::new(self.bucket.name())?;
        buckets.ensure(&name).await?;
        if let Some(max) = self.max_blob_bytes {
            let limit = |it: &mut BucketSettings| {
                it.max_blob_bytes = Some(max);
                Ok(())
            };
            buckets.configure(&name, &limit).await?;
        }
        for rule in &self.rules {
            buckets.put_rule(&name, rule.clone()).await?;
        }
        for rule in &self.lifecycle {
            buckets.put_lifecycle(&name, rule.clone()).await?;
        }
        Ok(())
    }
}
