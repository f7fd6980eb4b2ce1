//! Lists versions: buckets keep one version of each blob, which S3 calls `null`.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        CommonPrefix, ListObjectVersionsInput, ListObjectVersionsOutput, ObjectVersion,
        ObjectVersionStorageClass,
    },
};
use steadfast_bucket::Blob;

use crate::{
    convert::{etag, s3_time, signed},
    list::{Encoding, limit},
    operations::S3Operations,
};

impl S3Operations {
    pub(crate) async fn versions_list(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = req.input;
        let encoding = Encoding::of(input.encoding_type)?;
        let limit = limit("max-keys", input.max_keys)?;
        let after = input.key_marker.clone().filter(|it| !it.is_empty());
        let (prefix, delimiter) = (input.prefix.as_deref(), input.delimiter.as_deref());
        let found = self.listing(&input.bucket, prefix, delimiter, after, limit).await?;
        let shown = |it: &Blob| ObjectVersion {
            key: Some(encoding.text(it.key.as_str())),
            version_id: Some("null".into()),
            is_latest: Some(true),
            e_tag: Some(etag(&it.etag)),
            size: Some(signed(it.size)),
            last_modified: Some(s3_time(it.modified_at)),
            owner: Some(self.owner()),
            storage_class: Some(ObjectVersionStorageClass::from_static(
                ObjectVersionStorageClass::STANDARD,
            )),
            ..ObjectVersion::default()
        };
        let prefixes = found.prefixes.iter();
        let prefixes = prefixes.map(|it| CommonPrefix { prefix: Some(encoding.text(it)) });
        Ok(S3Response::new(ListObjectVersionsOutput {
            name: Some(input.bucket),
            prefix: encoding.option(Some(prefix.unwrap_or_default())),
            key_marker: encoding.option(Some(input.key_marker.as_deref().unwrap_or_default())),
            version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
            max_keys: i32::try_from(limit).ok(),
            is_truncated: Some(found.next.is_some()),
            next_key_marker: encoding.option(found.next.as_deref()),
            next_version_id_marker: found.next.as_ref().map(|_| "null".into()),
            delimiter: encoding.option(delimiter.filter(|it| !it.is_empty())),
            common_prefixes: Some(prefixes.collect()),
            versions: Some(found.blobs.iter().map(shown).collect()),
            encoding_type: encoding.0.clone(),
            delete_markers: None,
            request_charged: None,
        }))
    }
}
