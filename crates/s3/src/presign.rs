//! Presigned URLs: a URL permits one operation on one blob for a limited time, without a key.

use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use steadfast_bucket::{AccessKey, BlobKey, BucketName, KeyScope};
use steadfast_store::{DateTime, Seal, SealError, Timestamp};

/// Maximum lifetime of a presigned URL, as in S3.
pub const PRESIGN_MAX: Duration = Duration::from_hours(7 * 24);

/// The region in signatures.
pub(crate) const REGION: &str = "us-east-1";

/// Every character except the unreserved ones of RFC 3986.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &VALUE.remove(b'/');

/// The request that a presigned URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresignMethod {
    /// Read a blob.
    Get,
    /// Write a blob.
    Put,
}

/// An error of [`presign`].
#[derive(Debug, thiserror::Error)]
pub enum PresignError {
    /// The lifetime is too short or too long.
    #[error("lifetime of a presigned URL must be 1 second to 7 days, not {seconds} seconds")]
    Expires {
        /// The requested lifetime.
        seconds: u64,
    },
    /// The clock shows a time that a signature cannot contain.
    #[error("the time {0} cannot be written in a signature")]
    Time(i64),
}

/// The ids of keys that sign URLs begin with this; no stored key has such an id.
pub const URL_KEY_PREFIX: &str = "SP";

/// The key that signs the URLs of a token. It is derived from the seal key, so nothing is stored,
/// and it changes when the token gets a new secret.
pub fn url_key(seal: &Seal, token: &str, issued_at: Timestamp) -> Result<AccessKey, SealError> {
    let keys = seal.derived("presigned URLs")?;
    let missing = || SealError::KeyMissing { reason: "there is no key that signs URLs".into() };
    let secret = mac(keys.first().ok_or_else(missing)?, &format!("{token} {}", issued_at.0));
    Ok(AccessKey {
        id: format!("{URL_KEY_PREFIX}{token}"),
        secret: HEXLOWER.encode(&secret).into(),
        scope: KeyScope::default(),
        created_at: issued_at,
    })
}

/// A URL below `endpoint` (as in `http://127.0.0.1:8788`), valid from `at` on.
pub fn presign(
    endpoint: &str,
    key: &AccessKey,
    method: PresignMethod,
    blob: (&BucketName, &BlobKey),
    expires: Duration,
    at: Timestamp,
) -> Result<String, PresignError> {
    let path = format!("/{}/{}", blob.0, utf8_percent_encode(blob.1.as_str(), PATH));
    let method = match method {
        PresignMethod::Get => "GET",
        PresignMethod::Put => "PUT",
    };
    presign_path(endpoint, key, (method, &path), expires, at)
}

/// The same for any method and path, for tests.
#[doc(hidden)]
pub fn presign_path(
    endpoint: &str,
    key: &AccessKey,
    (method, path): (&str, &str),
    expires: Duration,
    at: Timestamp,
) -> Result<String, PresignError> {
    let endpoint = endpoint.trim_end_matches('/');
    let host = endpoint.split_once("://").map_or(endpoint, |it| it.1);
    let query = query(key, method, host, path, expires, at)?;
    Ok(format!("{endpoint}{path}?{query}"))
}

/// The query that signs a request: AWS4-HMAC-SHA256 of its method, path and host.
fn query(
    key: &AccessKey,
    method: &str,
    host: &str,
    path: &str,
    expires: Duration,
    at: Timestamp,
) -> Result<String, PresignError> {
    let seconds = expires.as_secs();
    if !(1..=PRESIGN_MAX.as_secs()).contains(&seconds) {
        return Err(PresignError::Expires { seconds });
    }
    let time = amz_date(at).ok_or(PresignError::Time(at.0))?;
    let day = &time[..8];
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let credential = format!("{}/{scope}", key.id);
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={time}\
         &X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host",
        utf8_percent_encode(&credential, VALUE)
    );
    let canonical = format!("{method}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
    let hash = HEXLOWER.encode(&Sha256::digest(canonical));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let mut secret = format!("AWS4{}", key.secret.expose()).into_bytes();
    for step in [day, REGION, "s3", "aws4_request"] {
        secret = mac(&secret, step).to_vec();
    }
    Ok(format!("{query}&X-Amz-Signature={}", HEXLOWER.encode(&mac(&secret, &text))))
}

/// A time as signatures have it: `20261115T023456Z`. `None` outside of the calendar.
pub(crate) fn amz_date(at: Timestamp) -> Option<String> {
    let DateTime { year, month, day, hour, minute, second, .. } =
        DateTime::of(at).filter(|it| 0 <= it.year)?;
    Some(format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"))
}

fn mac(secret: &[u8], text: &str) -> [u8; 32] {
    // HMAC accepts a secret of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return [0; 32] };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: Timestamp = Timestamp(1_369_353_600_000);

    fn key() -> AccessKey {
        AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            scope: KeyScope::default(),
            created_at: EXAMPLE,
        }
    }

    /// The example of "Authenticating Requests: Using Query Parameters" in the S3 API reference.
    #[test]
    fn the_example_of_the_reference_has_its_signature() {
        let host = "examplebucket.s3.amazonaws.com";
        let day = Duration::from_hours(24);
        assert_eq!(
            query(&key(), "GET", host, "/test.txt", day, EXAMPLE).unwrap(),
            "X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn a_key_is_escaped_and_its_slashes_stay() {
        let blob = (&BucketName::new("b-1").unwrap(), &BlobKey::new("a b/ü+?.txt").unwrap());
        let minute = Duration::from_mins(1);
        let endpoint = "http://127.0.0.1:8788/";
        let url = presign(endpoint, &key(), PresignMethod::Put, blob, minute, EXAMPLE).unwrap();
        assert!(url.starts_with("http://127.0.0.1:8788/b-1/a%20b/%C3%BC%2B%3F.txt?X-Amz-Alg"));
    }

    #[test]
    fn each_token_and_each_of_its_secrets_signs_urls_with_another_key() {
        let sealed = Seal::of_key([1; 32]);
        let key = |seal: &Seal, token: &str, at| url_key(seal, token, Timestamp(at)).unwrap();
        let first = key(&sealed, "A", 1);
        assert_eq!((&*first.id, &first), ("SPA", &key(&sealed, "A", 1)));
        let other = Seal::of_key([2; 32]);
        for key in [key(&sealed, "B", 1), key(&sealed, "A", 2), key(&other, "A", 1)] {
            assert_ne!(key.secret, first.secret);
        }
        assert!(url_key(&Seal::none(), "A", Timestamp(1)).is_err());
    }

    #[test]
    fn a_url_is_valid_for_one_second_to_seven_days() {
        let signed = |expires| query(&key(), "GET", "h", "/b/k", expires, EXAMPLE);
        for good in [Duration::from_secs(1), PRESIGN_MAX] {
            assert!(signed(good).is_ok());
        }
        for bad in [Duration::from_millis(999), PRESIGN_MAX + Duration::from_secs(1)] {
            assert!(matches!(signed(bad), Err(PresignError::Expires { .. })));
        }
    }
}
