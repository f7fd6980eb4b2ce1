//! Files that nothing refers to: what was being put when a process ended, and parts that did not
//! become part of a blob. A process knows which files it left itself. It walks through all of them
//! only if a session before it did not end cleanly, some folders at a time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use steadfast_store::{EntryKey, Timestamp};

use crate::{
    Blob, BucketError, BucketName, Buckets, Part,
    content::{Blobs, ContentId, FileName, PART_TIME},
    session::Walk,
    sweep::go_on,
};

/// Folders whose names are read at once.
const SHELVES_PAGE: usize = 500;
/// Folders and files that one sweep looks at.
const SHELVES_PER_SWEEP: usize = 10_000;
const FILES_PER_SWEEP: usize = 100_000;
/// A walk is for files that were made before it was owed. So much later it ends, in case that a
/// clock was set back in between.
const WALK_BEYOND: Duration = Duration::from_hours(24);

/// Files of a folder, or files to be looked at again.
#[derive(Default)]
struct Looked {
    files: usize,
    removed: usize,
    /// Somebody was at these.
    again: Vec<FileName>,
}

impl Buckets {
    /// Looks at files again that this process left.
    pub(crate) async fn look_again(&self) -> Result<usize, BucketError> {
        self.shared.take_left_over().await?;
        let keep = self.shared.options.keep_orphans;
        let files = self.shared.changes.doubts(|since| self.is_older(since, keep));
        if files.is_empty() {
            return Ok(0);
        }
        let looked = self.remove_unknown(files.clone()).await?;
        let again: HashSet<FileName> = looked.again.into_iter().collect();
        let settled: Vec<FileName> = files.into_iter().filter(|it| !again.contains(it)).collect();
        self.shared.changes.settle(&settled);
        Ok(looked.removed)
    }

    /// Goes on with the walk that is due, if there is one.
    pub(crate) async fn walk(
        &self,
        failed: &mut Option<BucketError>,
    ) -> Result<usize, BucketError> {
        let mut state = self.shared.session.lock().await;
        if state.is_over || !state.session.is_open() {
            return Ok(0);
        }
        // By then every file of the gap is old enough to go, by the time in its name.
        let options = &self.shared.options;
        let old = options.keep_orphans + Duration::from_millis(PART_TIME as u64);
        let keep = options.keep_unknown_files.max(old);
        let due = state.session.due_walk(|until| self.is_older(until, keep));
        let Some(mut walk) = due else { return Ok(0) };
        let kept_from = state.session.kept_from(&walk);
        let end = Timestamp(walk.until).after(WALK_BEYOND);
        let (mut removed, mut files, mut shelves) = (0, 0, 0);
        while files < FILES_PER_SWEEP && shelves < SHELVES_PER_SWEEP {
            let after = walk.shelf.clone();
            let page =
                move |blobs: &dyn Blobs| Ok(blobs.shelves_after(after.as_deref(), SHELVES_PAGE)?);
            let page = go_on(self.shared.off(page).await.map(Some), failed)?;
            // A folder of folders that cannot be read: the next sweep tries again.
            let Some(page) = page else { return Ok(removed) };
            shelves += page.len();
            let mut is_over = page.len() < SHELVES_PAGE;
            for (shelf, ended_at) in page {
                if FILES_PER_SWEEP <= files || self.shared.changes.is_closed() {
                    is_over = false;
                    break;
                }
                let looked = self.remove_orphans(&shelf, ended_at, kept_from).await;
                walk.has_failed |= looked.is_err();
                let looked = go_on(looked, failed)?;
                (files, removed) = (files + looked.files, removed + looked.removed);
                // This process looks again at files that are in use now.
                self.shared.doubt(&looked.again);
                walk.shelf = Some(shelf);
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
            false => state.session.go_on_with(walk.clone()),
        }
        state.save(&*self.shared.store).await.map(drop)
    }

    /// Files of a folder that no row refers to. One that is new may be about to be.
    async fn remove_orphans(
        &self,
        shelf: &str,
        ended_at: Timestamp,
        kept_from: Timestamp,
    ) -> Result<Looked, BucketError> {
        let (keep, here) = (self.shared.options.keep_orphans, shelf.to_owned());
        let mut files = self.shared.off(move |blobs| Ok(blobs.shelf(&here)?)).await?;
        let count = files.len();
        files.retain(|it| it.made_at() < kept_from && self.is_older(it.made_at(), keep));
        let looked = self.remove_unknown(files).await?;
        if self.is_older(ended_at, keep) {
            let shelf = shelf.to_owned();
            let remove = move |blobs: &dyn Blobs| {
                blobs.remove_shelf(&shelf);
                Ok(())
            };
            self.shared.off(remove).await?;
        }
        Ok(Looked { files: count, ..looked })
    }

    /// Removes those of the files that no row refers to.
    async fn remove_unknown(&self, mut files: Vec<FileName>) -> Result<Looked, BucketError> {
        files.sort_unstable();
        let mut looked = Looked::default();
        // Who holds one now has not asked the store yet, or is reading.
        let (held, free): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|it| self.shared.readers.is_in_use(it.content));
        looked.again = held;
        let contents: Vec<_> = free.chunk_by(|a, b| a.content == b.content).collect();
        for some in contents.chunks(500) {
            self.remove_unreferenced(some, &mut looked).await?;
        }
        Ok(looked)
    }

    /// Each of them the files of one content.
    async fn remove_unreferenced(
        &self,
        contents: &[&[FileName]],
        looked: &mut Looked,
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
                        // It has changed meanwhile, and the next sweep sees to it.
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
            // Who began to read before the row went holds it by now.
            match self.shared.readers.is_in_use(content) {
                true => looked.again.extend(unused),
                false => orphans.extend(unused),
            }
        }
        if !orphans.is_empty() {
            self.shared.doubt(&orphans);
            let names = orphans.clone();
            self.shared.off(move |blobs| Ok(blobs.remove(&names)?)).await?;
            self.shared.changes.settle(&orphans);
        }
        looked.removed += orphans.len();
        Ok(())
    }

    /// The parts of a content that the entry which needs it needs, if it still does.
    async fn parts_in_use(
        &self,
        content: ContentId,
        by: &EntryKey,
    ) -> Result<Option<HashSet<u64>>, BucketError> {
        let Some(found) = self.shared.store.entry(by).await? else { return Ok(None) };
        let Some(bucket) = by.space().strip_prefix("upload/") else {
            // A file that cannot be read is not swept.
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
