//! Copies a blob by linking its files, without copying bytes.

use std::io;

use steadfast_store::crash;

use crate::{
    Attributes, Blob, BlobAction, BlobKey, BucketError, BucketName, Buckets, Condition,
    blob::BlobRow,
    buckets::{Hold, Shared},
    change::Change,
    content::{Blobs, FileName},
    event::CopySource,
};

/// Options of a copy.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// Condition on the source.
    pub source: Condition,
    /// Condition on the blob that the copy replaces.
    pub condition: Condition,
    /// Attributes of the copy; `None` copies those of the source.
    pub attributes: Option<Attributes>,
}

impl Buckets {
    /// Copies a blob. Its files are linked: contents are never overwritten.
    #[steadfast_store::boxed]
    pub async fn copy(
        &self,
        from: (&BucketName, &BlobKey),
        to: (&BucketName, &BlobKey),
        copy: CopyOptions,
    ) -> Result<Blob, BucketError> {
        let buckets = self.clone();
        let (from, to) = ((from.0.clone(), from.1.clone()), (to.0.clone(), to.1.clone()));
        Shared::run_to_completion(async move { buckets.link_and_put(&from, &to, copy).await }).await
    }

    async fn link_and_put(
        &self,
        from: &(BucketName, BlobKey),
        to: &(BucketName, BlobKey),
        copy: CopyOptions,
    ) -> Result<Blob, BucketError> {
        if let Some(attributes) = &copy.attributes {
            attributes.check()?;
        }
        let _changing = self.shared.changes.begin()?;
        let mut missing = None;
        let (source, held, files) = loop {
            let source = self.head(&from.0, &from.1).await?;
            copy.source.check_read(&source).map_err(not_modified_fails)?;
            let max = self.shared.bucket(&to.0).await?.settings.blob_bytes_max();
            if max < source.size {
                return Err(BucketError::TooLarge { max });
            }
            let content = self.shared.new_content();
            let held = Hold::new(&self.shared, content);
            let hold = Hold::new(&self.shared, source.content);
            let links: Vec<(FileName, FileName)> = source
                .files()
                .into_iter()
                .map(|(name, _)| (name, FileName { content, ..name }))
                .collect();
            let files: Vec<FileName> = links.iter().map(|it| it.1).collect();
            let linked = self.shared.run_blocking(move |blobs| Ok(link_all(blobs, &links))).await;
            let linked = linked.and_then(|it| it.map_err(|error| source.unreadable(error)));
            drop(hold);
            crash::point("blob.linked");
            match linked {
                Ok(()) => break (source, held, files),
                Err(error) => {
                    drop(held);
                    self.shared.discard(files).await;
                    // A blob with another version was replaced after its row was read: retry.
                    if missing == Some(source.version()) {
                        return Err(error);
                    }
                    missing = Some(source.version());
                }
            }
        };
        let content = held.content;
        let attributes = copy.attributes.unwrap_or_else(|| source.attributes.clone());
        let change = Change {
            key: to.1.clone(),
            action: BlobAction::CopyObject,
            content: Some((content, BlobRow::copy(&source, content, attributes))),
            condition: copy.condition,
            copy_source: Some(CopySource {
                bucket: from.0.to_string(),
                object: from.1.to_string(),
            }),
            upload: None,
            once: None,
        };
        self.shared.replace(&to.0, change, files, held).await
    }
}

/// Links all files. On an error it removes the links made so far.
fn link_all(blobs: &dyn Blobs, links: &[(FileName, FileName)]) -> io::Result<()> {
    for (index, (from, to)) in links.iter().enumerate() {
        if let Err(error) = blobs.link(*from, *to) {
            let made: Vec<FileName> = links[..index].iter().map(|it| it.1).collect();
            // The caller handles files that cannot be removed.
            let _ = blobs.remove(&made);
            return Err(error);
        }
    }
    Ok(())
}

/// In a copy, an unmet condition is never "not modified".
fn not_modified_fails(error: BucketError) -> BucketError {
    let BucketError::NotModified { key, .. } = error else { return error };
    BucketError::Condition { key, reason: "it has not changed" }
}
