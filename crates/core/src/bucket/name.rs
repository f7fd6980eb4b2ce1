//! Names of buckets, and their declarations.

use steadfast_bucket::{BlobEvent, EventType, LifecycleRule, Rule};

use crate::Queue;

/// A bucket by its name: `const UPLOADS: Bucket = Bucket::named("uploads");`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    name: &'static str,
}

impl Bucket {
    /// The bucket of this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The bucket, with every change of keys that begin with `prefix` sent to a queue.
    pub fn notify(self, prefix: &str, to: Queue<BlobEvent>) -> BucketSpec {
        BucketSpec::from(self).notify(prefix, to)
    }
}

/// The declaration of a bucket. Rules and limits that operators add are kept.
#[derive(Clone, Debug)]
pub struct BucketSpec {
    pub(crate) bucket: Bucket,
    pub(crate) rules: Vec<Rule>,
    pub(crate) lifecycle: Vec<LifecycleRule>,
    pub(crate) max_blob_bytes: Option<u64>,
}

impl BucketSpec {
    /// Sends every change of keys that begin with `prefix` to a queue.
    pub fn notify(self, prefix: &str, to: Queue<BlobEvent>) -> Self {
        let events = [EventType::ObjectCreate, EventType::ObjectDelete];
        // One queue may get the events of several prefixes.
        let before = self.rules.iter().filter(|it| it.queue == to.name()).count();
        let id = match before {
            0 => to.name().to_owned(),
            count => format!("{}-{}", to.name(), count + 1),
        };
        self.rule(Rule { prefix: prefix.into(), ..Rule::new(&id, &events, to.name()) })
    }

    /// Sends changes to a queue.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Deletes old blobs.
    pub fn lifecycle(mut self, rule: LifecycleRule) -> Self {
        self.lifecycle.push(rule);
        self
    }

    /// Sets the maximum size of a blob in bytes.
    pub fn max_blob_bytes(mut self, max: u64) -> Self {
        self.max_blob_bytes = Some(max);
        self
    }
}

impl From<Bucket> for BucketSpec {
    fn from(bucket: Bucket) -> Self {
        Self { bucket, rules: Vec::new(), lifecycle: Vec::new(), max_blob_bytes: None }
    }
}
