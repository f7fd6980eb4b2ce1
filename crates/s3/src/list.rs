//! Lists of blobs, in both versions of the request.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        CommonPrefix, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
        ListObjectsV2Output, Object, ObjectStorageClass, Owner,
    },
    s3_error,
};
use steadfast_bucket::{Blob, LIST_MAX, ListOptions, Listing};

use crate::{
    convert::{self, etag, s3_time, signed},
    errors::s3_error_of,
    operations::S3Operations,
};

/// Characters that are not encoded in a key.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Encoding of keys: XML cannot represent all characters.
#[derive(Clone, Debug)]
pub(crate) struct Encoding(pub(crate) Option<EncodingType>);

impl Encoding {
    pub(crate) fn of(asked: Option<EncodingType>) -> S3Result<Self> {
        match &asked {
            Some(it) if it.as_str() != EncodingType::URL => {
                Err(s3_error!(InvalidArgument, "encoding-type can only be url"))
            }
            Some(_) | None => Ok(Self(asked)),
        }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        match self.0 {
            Some(_) => utf8_percent_encode(text, KEY).to_string(),
            None => text.to_owned(),
        }
    }

    pub(crate) fn option(&self, text: Option<&str>) -> Option<String> {
        text.map(|it| self.text(it))
    }
}

/// The requested number of entries.
pub(crate) fn limit(name: &str, asked: Option<i32>) -> S3Result<usize> {
    match asked.map(usize::try_from) {
        None => Ok(LIST_MAX),
        Some(Ok(asked)) => Ok(asked.min(LIST_MAX)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "{name} must not be negative")),
    }
}

impl S3Operations {
    pub(crate) async fn objects_list(
        &self,
        req: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = req.input;
        let encoding = Encoding::of(input.encoding_type)?;
        let limit = limit("max-keys", input.max_keys)?;
        let after = input.marker.clone().filter(|it| !it.is_empty());
        let listing = self
            .listing(
                &input.bucket,
                input.prefix.as_deref(),
                input.delimiter.as_deref(),
                after,
                limit,
            )
            .await?;
        let Page { contents, prefixes, next, .. } =
            Page::of(listing, &encoding, Some(&self.owner()));
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            prefix: encoding.option(Some(input.prefix.as_deref().unwrap_or_default())),
            marker: encoding.option(Some(input.marker.as_deref().unwrap_or_default())),
            max_keys: i32::try_from(limit).ok(),
            is_truncated: Some(next.is_some()),
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            delimiter: encoding.option(input.delimiter.as_deref().filter(|it| !it.is_empty())),
            next_marker: encoding.option(next.as_deref()),
            encoding_type: encoding.0,
            request_charged: None,
        }))
    }

    pub(crate) async fn objects_list_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = req.input;
        let encoding = Encoding::of(input.encoding_type)?;
        let limit = limit("max-keys", input.max_keys)?;
        let after = match &input.continuation_token {
            Some(token) => Some(decode_token(token)?),
            None => input.start_after.clone().filter(|it| !it.is_empty()),
        };
        let listing = self
            .listing(
                &input.bucket,
                input.prefix.as_deref(),
                input.delimiter.as_deref(),
                after,
                limit,
            )
            .await?;
        let owner = input.fetch_owner.unwrap_or(false).then(|| self.owner());
        let Page { contents, prefixes, next, count } = Page::of(listing, &encoding, owner.as_ref());
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: encoding.option(Some(input.prefix.as_deref().unwrap_or_default())),
            max_keys: i32::try_from(limit).ok(),
            key_count: i32::try_from(count).ok(),
            continuation_token: input.continuation_token,
            is_truncated: Some(next.is_some()),
            next_continuation_token: next.as_deref().map(token),
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            delimiter: encoding.option(input.delimiter.as_deref().filter(|it| !it.is_empty())),
            encoding_type: encoding.0.clone(),
            start_after: encoding.option(input.start_after.as_deref()),
            request_charged: None,
        }))
    }

    pub(crate) async fn listing(
        &self,
        bucket: &str,
        prefix: Option<&str>,
        delimiter: Option<&str>,
        after: Option<String>,
        limit: usize,
    ) -> S3Result<Listing> {
        let list = ListOptions {
            prefix: prefix.unwrap_or_default().into(),
            delimiter: delimiter.unwrap_or_default().into(),
            after,
            limit: Some(limit),
        };
        self.buckets.list(&convert::bucket(bucket)?, &list).await.map_err(s3_error_of)
    }
}

struct Page {
    contents: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    next: Option<String>,
    count: usize,
}

impl Page {
    fn of(listing: Listing, encoding: &Encoding, owner: Option<&Owner>) -> Self {
        let Listing { blobs, prefixes, next } = listing;
        let count = blobs.len() + prefixes.len();
        let object = |it: &Blob| Object {
            key: Some(encoding.text(it.key.as_str())),
            e_tag: Some(etag(&it.etag)),
            size: Some(signed(it.size)),
            last_modified: Some(s3_time(it.modified_at)),
            owner: owner.cloned(),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..Object::default()
        };
        let prefix = |it: &String| CommonPrefix { prefix: Some(encoding.text(it)) };
        let contents = blobs.iter().map(object).collect();
        Self { contents, prefixes: prefixes.iter().map(prefix).collect(), next, count }
    }
}

/// The continuation token: clients send it back unchanged.
pub(crate) fn token(after: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(after)
}

pub(crate) fn decode_token(token: &str) -> S3Result<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    bytes.and_then(|it| String::from_utf8(it).ok()).ok_or_else(|| {
        let text = "continuation-token is not that of an earlier page; leave it out to begin";
        s3_error!(InvalidArgument, "{text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_token_round_trips() {
        for after in ["a", "ü/\n", "\u{1F600} +%"] {
            assert_eq!(decode_token(&token(after)).unwrap(), after);
        }
        assert!(decode_token("!").is_err());
    }

    #[test]
    fn keys_are_encoded_as_clients_decode_them() {
        let url = Encoding::of(Some(EncodingType::from_static(EncodingType::URL))).unwrap();
        assert_eq!(url.text("a b+c/ü&~.txt"), "a%20b%2Bc/%C3%BC%26~.txt");
        assert_eq!(Encoding(None).text("a b+c"), "a b+c");
        assert!(Encoding::of(Some(EncodingType::from_static("xml"))).is_err());
    }

    #[test]
    fn a_page_has_at_most_1000_keys() {
        assert_eq!(limit("max-keys", None).unwrap(), 1_000);
        assert_eq!(limit("max-keys", Some(5_000)).unwrap(), 1_000);
        assert_eq!(limit("max-keys", Some(0)).unwrap(), 0);
        assert!(limit("max-keys", Some(-1)).is_err());
    }
}
