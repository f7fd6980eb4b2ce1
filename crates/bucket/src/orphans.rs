//! Removes orphans: files of unfinished writes, and parts that no blob uses. A process knows which
//! files it left itself. It walks through all folders only if an earlier session did not end
//! cleanly, some folders per sweep.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use steadfast_store::{EntryKey, Timestamp};

use crate::{
    Blob, BucketError, BucketName, Buckets,
    content::{Blobs, ContentId, FileName, PART_TIME},
    session::Walk,
    sweep::keep_first_error,
};

/// Number of folder names per read.
const SUBFOLDERS_PAGE: usize = 500;
/// Maximum number of folders and files per sweep.
const SUBFOLDERS_PER_SWEEP: usize = 10_000;
const FILES_PER_SWEEP: usize = 100_000;
/// A walk covers files created before the gap ended, plus this time, in case a clock was set back.
const WALK_BEYOND: Duration = Duration::from_hours(24);

/// Result of checking the files of a folder.
#[derive(Default)]
struct OrphanCheck {
    files: usize,
    removed: usize,
    /// Files in use, to be checked again.
    again: Vec<FileName>,
}

impl Buckets {
    /// Rechecks files that this process left.
    pub(crate) async fn recheck_files(&self) -> Result<usize, BucketError> {
        self.shared.recheck_abandoned_drafts().await?;
        let keep = self.shared.options.keep_orphans;
        let files = self.shared.changes.rechecks(|since| self.is_older(since, keep));
        if files.is_empty() {
            return Ok(0);
        }
        let looked = self.remove_unknown(files.clone()).await?;
        let again: HashSet<FileName> = looked.again.into_iter().collect();
        let settled: Vec<FileName> = files.into_iter().filter(|it| !again.contains(it)).collect();
        self.shared.changes.settle(&settled);
        Ok(looked.removed)
    }

    /// Continues the walk that is due, if any.
    pub(crate) async fn walk(
        &self,
        failed: &mut Option<BucketError>,
    ) -> Result<usize, BucketError> {
        let mut state = self.shared.session.lock().await;
        if state.is_over || !state.session.is_open() {
            return Ok(0);
        }
        // By then every file of the gap is old enough to be removed, by the time in its name.
        let options = &self.shared.options;
        let old = options.keep_orphans + Duration::from_millis(PART_TIME as u64);
        let keep = options.keep_unknown_files.max(old);
        let due = state.session.due_walk(|until| self.is_older(until, keep));
        let Some(mut walk) = due else { return Ok(0) };
        let covered_until = state.session.covered_until(&walk);
        let end = Timestamp(walk.until).after(WALK_BEYOND);
        let (mut removed, mut files, mut subfolders) = (0, 0, 0);
        while files < FILES_PER_SWEEP && subfolders < SUBFOLDERS_PER_SWEEP {
            let after = walk.subfolder.clone();
            let page = move |blobs: &dyn Blobs| {
                Ok(blobs.subfolders_after(after.as_deref(), SUBFOLDERS_PAGE)?)
            };
            let page = keep_first_error(self.shared.run_blocking(page).await.map(Some), failed)?;
            // The parent folder cannot be read: the next sweep retries.
            let Some(page) = page else { return Ok(removed) };
            subfolders += page.len();
            let mut is_over = page.len() < SUBFOLDERS_PAGE;
            for (subfolder, ended_at) in page {
                if FILES_PER_SWEEP <= files || self.shared.changes.is_closed() {
                    is_over = false;
                    break;
                }
                let looked = self.remove_orphans(&subfolder, ended_at, covered_until).await;
                walk.has_failed |= looked.is_err();
                let looked = keep_first_error(looked, failed)?;
                (files, removed) = (files + looked.files, removed + looked.removed);
                // This process rechecks files that are in use now.
                self.shared.recheck(&looked.again);
                walk.subfolder = Some(subfolder);
                if ended_at != Timestamp::MAX && end < ended_at {
                    is_over = true;
                    break;
                }
            }
            self.save_walk(&mut state, &walk, is_over).await?;
            if is_over || state.is_over || self.shared.changes.is_closed() {
                break;
            }
        }
        Ok(removed)
    }

    async fn save_walk(
        &self,
        state: &mut crate::session::State,
        walk: &Walk,
        is_over: bool,
    ) -> Result<(), BucketError> {
        match is_over {
            true => state.session.end_walk(walk),
            false => state.session.continue_walk(walk.clone()),
        }
        state.save(&*self.shared.store).await.map(drop)
    }

    /// Removes orphans of a folder. A new file may belong to a commit that follows.
    async fn remove_orphans(
        &self,
        subfolder: &str,
        ended_at: Timestamp,
        covered_until: Timestamp,
    ) -> Result<OrphanCheck, BucketError> {
        let (keep, here) = (self.shared.options.keep_orphans, subfolder.to_owned());
        let mut files = self.shared.run_blocking(move |blobs| Ok(blobs.files_in(&here)?)).await?;
        let count = files.len();
        files.retain(|it| it.created_at() < covered_until && self.is_older(it.created_at(), keep));
        let looked = self.remove_unknown(files).await?;
        if self.is_older(ended_at, keep) {
            let subfolder = subfolder.to_owned();
            let remove = move |blobs: &dyn Blobs| {
                blobs.remove_subfolder(&subfolder);
                Ok(())
            };
            self.shared.run_blocking(remove).await?;
        }
        Ok(OrphanCheck { files: count, ..looked })
    }

    /// Removes those of the files that no row refers to.
    async fn remove_unknown(&self, mut files: Vec<FileName>) -> Result<OrphanCheck, BucketError> {
        files.sort_unstable();
        let mut looked = OrphanCheck::default();
        // A writer that holds one may not have committed yet, and readers hold the files they read.
        let (held, free): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|it| self.shared.readers.is_in_use(it.content));
        looked.again = held;
        let contents: Vec<_> = free.chunk_by(|a, b| a.content == b.content).collect();
        for some in contents.chunks(500) {
            self.remove_unreferenced(some, &mut looked).await?;
        }
        Ok(looked)
    }

    /// Removes the files of each content that no row refers to.
    async fn remove_unreferenced(
        &self,
        contents: &[&[FileName]],
        looked: &mut OrphanCheck,
    ) -> Result<(), BucketError> {
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
                        // The row changed meanwhile; the next sweep handles it.
                        None => {
                            looked.again.extend_from_slice(files);
                            continue;
                        }
                    }
                }
                Some(_) => continue,
                None => HashSet::new(),
            };
            let is_used = |it: &&FileName| it.part.is_some_and(|it| used.contains(&it));
            let unused = files.iter().filter(|it| !is_used(it));
            // A reader that began before the row was deleted holds the content by now.
            match self.shared.readers.is_in_use(content) {
                true => looked.again.extend(unused),
                false => orphans.extend(unused),
            }
        }
        if !orphans.is_empty() {
            self.shared.recheck(&orphans);
            let names = orphans.clone();
            self.shared.run_blocking(move |blobs| Ok(blobs.remove(&names)?)).await?;
            self.shared.changes.settle(&orphans);
        }
        looked.removed += orphans.len();
        Ok(())
    }

    /// The parts of a content that its entry still refers to.
    async fn parts_in_use(
        &self,
        content: ContentId,
        by: &EntryKey,
    ) -> Result<Option<HashSet<u64>>, BucketError> {
        let Some(found) = self.shared.store.entry(by).await? else { return Ok(None) };
        let Some(bucket) = by.space().strip_prefix("upload/") else {
            // Files of an entry that cannot be read are kept.
            let blob = Blob::read(&found).ok().flatten().filter(|it| it.content == content);
            return Ok(blob.map(|it| it.parts.iter().map(|it| it.0).collect()));
        };
        let parts = self.shared.all_parts(&BucketName::new(bucket)?, content).await?;
        // Rows of parts are removed only after the upload has ended: while it exists, the list was
        // complete.
        let is_open = self.shared.store.entry(by).await?.is_some_and(|it| it.value.is_some());
        Ok(is_open.then(|| parts.into_iter().map(|it| it.file).collect()))
    }
}
