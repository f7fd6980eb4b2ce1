//! Files that nothing refers to: what was being put when a process ended, and parts that did not
//! become part of a blob.

use std::collections::{HashMap, HashSet};

use steadfast_store::{EntryKey, Timestamp};

use crate::{
    Blob, BucketError, BucketName, Buckets, Part,
    content::{Blobs, ContentId, FileName},
};

impl Buckets {
    /// Files of a folder that no row refers to. One that is new may be about to be.
    pub(crate) async fn remove_orphans(
        &self,
        (shelf, ended_at): (String, Timestamp),
    ) -> Result<usize, BucketError> {
        let (keep, here) = (self.shared.options.keep_orphans, shelf.clone());
        let mut files = self.shared.off(move |blobs| Ok(blobs.shelf(&here)?)).await?;
        // Who holds one now has not asked the store yet, or is reading.
        files.retain(|it| {
            self.is_older(it.made_at(), keep) && !self.shared.readers.is_in_use(it.content)
        });
        files.sort_unstable();
        let mut count = 0;
        let contents: Vec<_> = files.chunk_by(|a, b| a.content == b.content).collect();
        for some in contents.chunks(500) {
            count += self.remove_unreferenced(some).await?;
        }
        if self.is_older(ended_at, keep) {
            let remove = move |blobs: &dyn Blobs| {
                blobs.remove_shelf(&shelf);
                Ok(())
            };
            self.shared.off(remove).await?;
        }
        Ok(count)
    }

    /// Each of them the files of one content.
    async fn remove_unreferenced(&self, contents: &[&[FileName]]) -> Result<usize, BucketError> {
        let ids: Vec<_> = contents.iter().map(|it| it[0].content.reference()).collect();
        let needed = self.shared.store.referenced(&ids).await?;
        let needed: HashMap<_, _> = needed.into_iter().collect();
        let mut orphans: Vec<FileName> = Vec::new();
        for files in contents {
            let content = files[0].content;
            let used = match needed.get(&content.reference()) {
                Some(by) if files.iter().any(|it| it.part.is_some()) => {
                    match self.parts_in_use(content, by).await? {
                        Some(used) => used,
                        // It has changed meanwhile, and the next sweep sees to it.
                        None => continue,
                    }
                }
                Some(_) => continue,
                None => HashSet::new(),
            };
            // Who began to read before the row went holds it by now.
            if !self.shared.readers.is_in_use(content) {
                let is_used = |it: &&FileName| it.part.is_some_and(|it| used.contains(&it));
                orphans.extend(files.iter().filter(|it| !is_used(it)));
            }
        }
        let count = orphans.len();
        if 0 < count {
            self.shared.off(move |blobs| Ok(blobs.remove(&orphans)?)).await?;
        }
        Ok(count)
    }

    /// The parts of a content that the entry which needs it needs, if it still does.
    async fn parts_in_use(
        &self,
        content: ContentId,
        by: &EntryKey,
    ) -> Result<Option<HashSet<u64>>, BucketError> {
        let Some(found) = self.shared.store.entry(by).await? else { return Ok(None) };
        let Some(bucket) = by.space().strip_prefix("upload/") else {
            // What cannot be read is not swept.
            let blob = Blob::read(&found).ok().flatten().filter(|it| it.content == content);
            return Ok(blob.map(|it| it.parts.iter().map(|it| it.0).collect()));
        };
        let space = BucketName::new(bucket)?.parts();
        let (mut used, mut last) = (HashSet::new(), None::<Vec<u8>>);
        loop {
            let page = self.shared.page(&space, &content.0, last.as_deref()).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.entry.key().to_vec());
            for part in page.iter().filter_map(|it| Part::read(it).transpose()) {
                used.insert(part?.file);
            }
        }
        // Rows of parts go only after the upload has ended: while it is there, these were all.
        let is_open = self.shared.store.entry(by).await?.is_some_and(|it| it.value.is_some());
        Ok(is_open.then_some(used))
    }
}
