//! Events about changes of blobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kinds of changes of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BlobAction {
    /// A write.
    PutObject,
    /// A copy.
    CopyObject,
    /// A completed multipart upload.
    CompleteMultipartUpload,
    /// A deletion.
    DeleteObject,
    /// A deletion by a lifecycle rule.
    LifecycleDeletion,
    /// An action that this version does not know.
    #[serde(other)]
    Unknown,
}

steadfast_store::texts! {
    BlobAction {
        PutObject = "PutObject",
        CopyObject = "CopyObject",
        CompleteMultipartUpload = "CompleteMultipartUpload",
        DeleteObject = "DeleteObject",
        LifecycleDeletion = "LifecycleDeletion",
        Unknown = "Unknown",
    }
}

impl BlobAction {
    /// The name in events.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the blob does not exist after the change.
    pub fn is_deletion(self) -> bool {
        matches!(self, BlobAction::DeleteObject | BlobAction::LifecycleDeletion)
    }
}

/// A change of a blob, as consumers receive it. Order the changes of one key by `sequence`, never
/// by time or arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobEvent {
    /// The store that sent the event: 32 hexadecimal digits.
    pub account: String,
    /// The change.
    pub action: BlobAction,
    /// The bucket.
    pub bucket: String,
    /// The blob.
    pub object: EventObject,
    /// Time of the change, in UTC with milliseconds.
    pub event_time: String,
    /// Source of a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_source: Option<CopySource>,
    /// Identifies the write; for a deletion, the write that it removed.
    #[serde(default)]
    pub version: String,
    /// Number of this change in the sequence of its key.
    #[serde(default)]
    pub sequence: i64,
    /// User metadata; empty for a deletion.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

impl BlobEvent {
    /// The key of the blob.
    pub fn key(&self) -> &str {
        &self.object.key
    }
}

/// The blob in an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventObject {
    /// Its key.
    pub key: String,
    /// Size in bytes; absent for a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// ETag; absent for a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
}

/// The source of a copied blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySource {
    /// Bucket of the source.
    pub bucket: String,
    /// Key of the source.
    pub object: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_cloudflare_r2_can_be_parsed() {
        let theirs = r#"{"account":"a","action":"CopyObject","bucket":"my-bucket",
            "object":{"key":"my-new-object","size":65536,"eTag":"c846"},
            "eventTime":"2024-05-24T19:36:44.379Z",
            "copySource":{"bucket":"my-bucket","object":"my-original-object"}}"#;
        let event: BlobEvent = serde_json::from_str(theirs).unwrap();
        assert_eq!(
            (event.action, event.key(), event.sequence),
            (BlobAction::CopyObject, "my-new-object", 0)
        );
        let unknown = theirs.replace("CopyObject", "SomethingNew");
        let event: BlobEvent = serde_json::from_str(&unknown).unwrap();
        assert_eq!(event.action, BlobAction::Unknown);
    }

    #[test]
    fn the_event_of_a_deletion_has_no_size_and_no_etag() {
        let event = BlobEvent {
            account: "a".into(),
            action: BlobAction::DeleteObject,
            bucket: "b".into(),
            object: EventObject { key: "k".into(), size: None, e_tag: None },
            event_time: "2024-05-24T19:36:44.379Z".into(),
            copy_source: None,
            version: "v".into(),
            sequence: 2,
            metadata: BTreeMap::new(),
        };
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.contains(r#""object":{"key":"k"},"eventTime":"2024-05-24T19:36:44.379Z","#));
        assert!(!text.contains("copySource"), "{text}");
    }

    #[test]
    fn the_name_of_an_action_is_the_one_in_events() {
        for (action, name) in [
            (BlobAction::PutObject, "PutObject"),
            (BlobAction::CopyObject, "CopyObject"),
            (BlobAction::CompleteMultipartUpload, "CompleteMultipartUpload"),
            (BlobAction::DeleteObject, "DeleteObject"),
            (BlobAction::LifecycleDeletion, "LifecycleDeletion"),
            (BlobAction::Unknown, "Unknown"),
        ] {
            assert_eq!(action.name(), name);
            assert_eq!(serde_json::to_value(action).unwrap(), name);
        }
    }
}
