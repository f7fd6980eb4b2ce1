//! The last uses of access keys, written now and then.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use steadfast_bucket::note_key_use;
use steadfast_s3::URL_KEY_PREFIX;
use steadfast_store::{Store, Timestamp};

/// The last use of a key is written at most once in this time.
const WRITTEN: Duration = Duration::from_secs(60);

/// When the last use of each key was last written. Only keys that exist are here.
#[derive(Default)]
pub(crate) struct KeyUses(Mutex<HashMap<String, Timestamp>>);

impl KeyUses {
    /// Notes a request whose signature was right. A use that is not written is of no matter. Keys
    /// that sign URLs are not stored, and neither are their uses.
    pub(crate) fn note(&self, store: &Arc<dyn Store>, key: &str) {
        if key.starts_with(URL_KEY_PREFIX) {
            return;
        }
        let now = store.clock().now();
        {
            let mut written = self.0.lock();
            if written.get(key).is_some_and(|it| now < it.after(WRITTEN)) {
                return;
            }
            written.insert(key.into(), now);
        }
        let (store, key) = (store.clone(), key.to_owned());
        tokio::spawn(async move { note_key_use(&*store, &key).await });
    }
}
