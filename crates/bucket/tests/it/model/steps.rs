//! Random steps, and their possible results.

use std::{io, time::Duration};

use steadfast_bucket::{
    Attributes, BlobAction, BucketError, Condition, CopyOptions, EventType, ExpectedContent,
    PartTag, PutOptions, Quota, Rule,
};
use steadfast_store::{Clock, Store};

use super::{
    World,
    bucket_state::{BucketState, DAY, KEYS},
};
use crate::setup::{bucket, key};

/// The states that a step passes through, and its result.
pub(crate) type Done = (Vec<BucketState>, Result<(), BucketError>);

impl World {
    pub(crate) async fn step(&mut self) -> Done {
        match self.below(20) {
            0..5 => self.put().await,
            5..8 => self.delete().await,
            8..10 => self.copy().await,
            10 => self.begin_upload().await,
            11..13 => self.put_part().await,
            13..15 => self.end_upload(true).await,
            15 => self.end_upload(false).await,
            16 => self.listen().await,
            17 => self.quota().await,
            _ => self.sweep().await,
        }
    }

    fn a_key(&self) -> &'static str {
        KEYS[self.below(KEYS.len() as u64) as usize]
    }

    /// New bytes, identified by their CRC-32.
    fn some_bytes(&mut self) -> (u32, Vec<u8>) {
        let len = [0, 1, 700, 300_000][self.below(4) as usize];
        let mut bytes = vec![self.steps as u8; len];
        bytes.extend(self.steps.to_be_bytes());
        (crc32fast::hash(&bytes), bytes)
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.metadata.insert("step".into(), self.steps.to_string());
        attributes
    }

    /// Sometimes the disk is full at the n-th call.
    fn maybe_fault(&self) {
        if self.below(6) == 0 {
            let nth = 1 + self.below(4) as usize;
            self.faulty_blobs.fail_from(nth, io::ErrorKind::StorageFull);
        }
    }

    fn now_and_step(&self) -> (String, steadfast_store::Timestamp) {
        (self.steps.to_string(), self.clock.now())
    }

    async fn put(&mut self) -> Done {
        let (at, (crc32, bytes)) = (self.a_key(), self.some_bytes());
        let (attributes, expected) = (self.attributes(), ExpectedContent::default());
        let is_new = self.below(4) == 0;
        let condition = if is_new { Condition::absent() } else { Condition::default() };
        let put = PutOptions { attributes, expected, condition, once: None };
        let (step, now) = self.now_and_step();
        self.maybe_fault();
        let done = self.buckets().put(&bucket(), &key(at), &bytes, put).await;
        if is_new && self.model.blobs.contains_key(at) && done.is_err() {
            return (vec![], done.map(drop));
        }
        let what = (crc32, bytes.len() as u64);
        let after = self.model.clone().written(at, BlobAction::PutObject, what, (&step, now));
        (vec![after], done.map(drop))
    }

    async fn delete(&mut self) -> Done {
        let at = self.a_key();
        let done = self.buckets().delete(&bucket(), &key(at), Condition::default()).await;
        if !self.model.blobs.contains_key(at) {
            assert!(!matches!(done, Ok(Some(_))), "{at} was not there");
            return (vec![], done.map(drop));
        }
        let now = self.clock.now();
        (vec![self.model.clone().deleted(at, BlobAction::DeleteObject, now)], done.map(drop))
    }

    async fn copy(&mut self) -> Done {
        let (from, to) = (self.a_key(), self.a_key());
        let attributes = Some(self.attributes());
        let copy = CopyOptions { attributes, ..CopyOptions::default() };
        let (step, now) = self.now_and_step();
        self.maybe_fault();
        let (bucket, from_key, to_key) = (bucket(), key(from), key(to));
        let done = self.buckets().copy((&bucket, &from_key), (&bucket, &to_key), copy).await;
        let Some(source) = self.model.blobs.get(from) else {
            assert!(done.is_err(), "{from} is not there");
            return (vec![], done.map(drop));
        };
        let what = (source.bytes, source.size);
        let after = self.model.clone().written(to, BlobAction::CopyObject, what, (&step, now));
        (vec![after], done.map(drop))
    }

    async fn begin_upload(&mut self) -> Done {
        let at = self.a_key();
        let attributes = self.attributes();
        let done = self.buckets().begin_upload(&bucket(), &key(at), attributes).await;
        let mut after = self.model.clone();
        after.uploads.insert(String::new(), (at.to_owned(), Default::default()));
        self.begun_by = self.steps.to_string();
        (vec![after], done.map(drop))
    }

    fn an_upload(&self) -> Option<String> {
        let all: Vec<&String> = self.model.uploads.keys().collect();
        (!all.is_empty()).then(|| all[self.below(all.len() as u64) as usize].clone())
    }

    async fn put_part(&mut self) -> Done {
        let Some(id) = self.an_upload() else { return (vec![], Ok(())) };
        let (number, (crc32, bytes)) = (1 + self.below(3) as u32, self.some_bytes());
        let at = key(&self.model.uploads[&id].0);
        self.sizes.insert(crc32, bytes.len() as u64);
        self.maybe_fault();
        let sent = async {
            let mut part = self.buckets().part_writer(&bucket(), &at, &id, number).await?;
            part.write(&bytes).await?;
            part.finish(ExpectedContent::default()).await
        };
        let done = sent.await;
        let mut after = self.model.clone();
        after.uploads.get_mut(&id).unwrap().1.insert(number, crc32);
        (vec![after], done.map(drop))
    }

    async fn end_upload(&mut self, complete: bool) -> Done {
        let Some(id) = self.an_upload() else { return (vec![], Ok(())) };
        let (at, parts) = self.model.uploads[&id].clone();
        let mut after = self.model.clone();
        after.uploads.remove(&id);
        let key = key(&at);
        if !complete {
            return (vec![after], self.buckets().abort_upload(&bucket(), &key, &id).await);
        }
        // One part is enough: parts before the last would have to be large.
        let Some((number, crc32)) = parts.last_key_value() else { return (vec![], Ok(())) };
        let tags = [PartTag { number: *number, crc32: Some(*crc32), ..PartTag::default() }];
        let any = Condition::default();
        let done = self.buckets().complete_upload(&bucket(), &key, &id, &tags, any).await;
        let what = (*crc32, self.sizes[crc32]);
        let (action, begun_by) = (BlobAction::CompleteMultipartUpload, self.begun[&id].1.clone());
        let after = after.written(&at, action, what, (&begun_by, self.clock.now()));
        (vec![after], done.map(drop))
    }

    /// Starts or stops to send events.
    async fn listen(&mut self) -> Done {
        let mut after = self.model.clone();
        after.listens = !after.listens;
        let done = if after.listens {
            let events = [EventType::ObjectCreate, EventType::ObjectDelete];
            let rule = Rule::new("all", &events, "events");
            self.buckets().put_rule(&bucket(), rule).await
        } else {
            self.buckets().delete_rule(&bucket(), "all").await
        };
        (vec![after], done)
    }

    /// Advances the clock, little or much, and sweeps; no file is left over.
    /// Sets or removes the quota of `old`, whose blobs are counted then.
    async fn quota(&mut self) -> Done {
        let result = match self.below(3) {
            0 => self.buckets().remove_quota("old").await.map(drop),
            _ => self.buckets().set_quota("old", Quota::default()).await,
        };
        let counted = self.buckets().count_usage().await;
        (vec![self.model.clone()], result.and(counted))
    }

    async fn sweep(&mut self) -> Done {
        let hours = [0, 2, 3, 26, 8 * 24, 31 * 24][self.below(6) as usize];
        self.clock.advance(Duration::from_hours(hours));
        let began = self.begun.iter().map(|(id, it)| (id.clone(), it.0)).collect();
        // After a start nothing is deleted by age until the clock is trusted.
        let is_held = self.store.clock().deletion_time().is_none();
        let states = match is_held {
            true => Vec::new(),
            false => self.model.swept(self.clock.now(), &began),
        };
        let done = self.buckets().sweep().await.map(drop);
        self.is_swept = done.is_ok() && 2 <= hours;
        assert!(DAY < Duration::from_hours(26));
        (states, done)
    }
}
