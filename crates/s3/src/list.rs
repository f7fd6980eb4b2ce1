//! Lists of blobs, in both versions of the request.

use data_encoding::BASE64URL_NOPAD;
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

    pub(crate) fn prefixes(&self, found: &Listing) -> Vec<CommonPrefix> {
        let prefix = |it: &String| CommonPrefix { prefix: Some(self.text(it)) };
        found.prefixes.iter().map(prefix).collect()
    }

    fn objects(&self, found: &Listing, owner: Option<&Owner>) -> Vec<Object> {
        let object = |it: &Blob| Object {
            key: Some(self.text(it.key.as_str())),
            e_tag: Some(etag(&it.etag)),
            size: Some(signed(it.size)),
            last_modified: Some(s3_time(it.modified_at)),
            owner: owner.cloned(),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..Object::default()
        };
        found.blobs.iter().map(object).collect()
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

/// The fields that all requests for lists of blobs have, and that their responses repeat.
pub(crate) struct ListRequest {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) delimiter: Option<String>,
    pub(crate) limit: usize,
    pub(crate) encoding: Encoding,
}

/// The common fields of an input for a list. The inputs have no trait for them.
macro_rules! list_request {
    ($input:ident) => {
        $crate::list::ListRequest {
            encoding: $crate::list::Encoding::of($input.encoding_type)?,
            limit: $crate::list::limit("max-keys", $input.max_keys)?,
            bucket: $input.bucket,
            prefix: $input.prefix.unwrap_or_default(),
            delimiter: $input.delimiter.filter(|it| !it.is_empty()),
        }
    };
}
pub(crate) use list_request;

/// Sets the common fields of an output with a list.
macro_rules! list_response {
    ($output:ident, $asked:ident, $found:ident) => {
        $output {
            prefix: Some($asked.encoding.text(&$asked.prefix)),
            delimiter: $asked.encoding.option($asked.delimiter.as_deref()),
            max_keys: i32::try_from($asked.limit).ok(),
            is_truncated: Some($found.next.is_some()),
            common_prefixes: Some($asked.encoding.prefixes(&$found)),
            encoding_type: $asked.encoding.0,
            name: Some($asked.bucket),
            ..$output::default()
        }
    };
}
pub(crate) use list_response;

impl S3Operations {
    pub(crate) async fn objects_list(
        &self,
        req: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = req.input;
        let after = input.marker.clone().filter(|it| !it.is_empty());
        let asked = list_request!(input);
        let found = self.listing(&asked, after).await?;
        let encoding = &asked.encoding;
        Ok(S3Response::new(ListObjectsOutput {
            marker: encoding.option(Some(input.marker.as_deref().unwrap_or_default())),
            next_marker: encoding.option(found.next.as_deref()),
            contents: Some(encoding.objects(&found, Some(&self.owner()))),
            ..list_response!(ListObjectsOutput, asked, found)
        }))
    }

    pub(crate) async fn objects_list_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = req.input;
        let asked = list_request!(input);
        let after = match &input.continuation_token {
            Some(token) => Some(decode_token(token)?),
            None => input.start_after.clone().filter(|it| !it.is_empty()),
        };
        let found = self.listing(&asked, after).await?;
        let owner = input.fetch_owner.unwrap_or(false).then(|| self.owner());
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: i32::try_from(found.blobs.len() + found.prefixes.len()).ok(),
            continuation_token: input.continuation_token,
            next_continuation_token: found.next.as_deref().map(token),
            start_after: asked.encoding.option(input.start_after.as_deref()),
            contents: Some(asked.encoding.objects(&found, owner.as_ref())),
            ..list_response!(ListObjectsV2Output, asked, found)
        }))
    }

    pub(crate) async fn listing(
        &self,
        asked: &ListRequest,
        after: Option<String>,
    ) -> S3Result<Listing> {
        let list = ListOptions {
            prefix: asked.prefix.clone(),
            delimiter: asked.delimiter.clone().unwrap_or_default(),
            after,
            limit: Some(asked.limit),
        };
        self.buckets.list(&convert::bucket(&asked.bucket)?, &list).await.map_err(s3_error_of)
    }
}

/// The continuation token: clients send it back unchanged.
pub(crate) fn token(after: &str) -> String {
    BASE64URL_NOPAD.encode(after.as_bytes())
}

pub(crate) fn decode_token(token: &str) -> S3Result<String> {
    let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).ok();
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
