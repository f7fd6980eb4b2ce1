//! What a client says that its bytes come to: in headers, or in a trailer behind the body.

use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use steadfast_bucket::{Blob, Expected};

use crate::words::{base64, unbase64};

/// What checksums are asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Sha256,
}

impl Algorithm {
    /// One that we know, by its name in S3.
    pub(crate) fn of(name: &str) -> S3Result<Self> {
        match name.to_ascii_uppercase().as_str() {
            "CRC32" => Ok(Algorithm::Crc32),
            "SHA256" => Ok(Algorithm::Sha256),
            other => Err(s3_error!(
                InvalidRequest,
                "the checksum {other} is not supported; use CRC32 or SHA256"
            )),
        }
    }
}

const HEADER: &str = "x-amz-checksum-";

/// What is promised about a body.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    /// What is known before it comes.
    pub(crate) expected: Expected,
    /// What comes behind it.
    pub(crate) trailer: Option<Algorithm>,
}

impl Promise {
    /// Reads the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let mut expected = Expected::default();
        if let Some(value) = headers.get("content-md5") {
            let md5 = value.to_str().ok().and_then(unbase64);
            let text = "Content-MD5 must be the base64 of 16 bytes";
            expected.md5 = Some(md5.ok_or_else(|| s3_error!(InvalidDigest, "{text}"))?);
        }
        let mut count = 0;
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix(HEADER) else { continue };
            if ["algorithm", "mode", "type"].contains(&name) {
                continue;
            }
            count += 1;
            promise(&mut expected, Algorithm::of(name)?, value.to_str().unwrap_or_default())?;
        }
        let trailer = headers.get("x-amz-trailer").map(|it| it.to_str().unwrap_or_default());
        let trailer = trailer.map(|it| it.trim().to_ascii_lowercase());
        let trailer = trailer.filter(|it| !it.is_empty()).map(|it| match it.strip_prefix(HEADER) {
            Some(name) => Algorithm::of(name),
            None => Err(s3_error!(InvalidRequest, "trailer {it} is not supported")),
        });
        let trailer = trailer.transpose()?;
        if 1 < count + usize::from(trailer.is_some()) {
            return Err(s3_error!(InvalidRequest, "send one x-amz-checksum header, not several"));
        }
        Ok(Self { expected, trailer })
    }

    /// Whether the SHA-256 must be computed.
    pub(crate) fn needs_sha256(&self) -> bool {
        self.expected.sha256.is_some() || self.trailer == Some(Algorithm::Sha256)
    }

    /// Adds what came behind the body.
    pub(crate) fn keep(self, trailers: Option<&HeaderMap>) -> S3Result<Expected> {
        let Self { mut expected, trailer } = self;
        let Some(algorithm) = trailer else { return Ok(expected) };
        let name = match algorithm {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
        };
        let value = trailers.and_then(|it| it.get(name)).and_then(|it| it.to_str().ok());
        let Some(value) = value else {
            let text = "the trailer that x-amz-trailer announces did not come; nothing was stored";
            let mut error =
                S3Error::with_message(S3ErrorCode::Custom("MalformedTrailerError".into()), text);
            error.set_status_code(http::StatusCode::BAD_REQUEST);
            return Err(error);
        };
        promise(&mut expected, algorithm, value)?;
        Ok(expected)
    }
}

fn promise(expected: &mut Expected, algorithm: Algorithm, value: &str) -> S3Result<()> {
    let bad = |name, len| s3_error!(InvalidRequest, "{name} must be the base64 of {len} bytes");
    match algorithm {
        Algorithm::Crc32 => expected.crc32 = Some(crc32(value).ok_or_else(|| bad("CRC32", 4))?),
        Algorithm::Sha256 => {
            expected.sha256 = Some(unbase64(value).ok_or_else(|| bad("SHA256", 32))?);
        }
    }
    Ok(())
}

/// A CRC-32 as S3 writes it.
pub(crate) fn crc32(text: &str) -> Option<u32> {
    unbase64(text).map(u32::from_be_bytes)
}

/// The checksums of a blob or part in the words of S3: one of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) crc32: Option<String>,
    pub(crate) sha256: Option<String>,
    /// Whether it is of the parts rather than of the whole.
    pub(crate) is_composite: bool,
}

impl Sums {
    pub(crate) fn of(crc32: u32, sha256: Option<[u8; 32]>) -> Self {
        match sha256 {
            Some(it) => Self { sha256: Some(base64(&it)), ..Self::default() },
            None => Self { crc32: Some(base64(&crc32.to_be_bytes())), ..Self::default() },
        }
    }

    pub(crate) fn of_blob(blob: &Blob) -> Self {
        let mut sums = Self::of(blob.crc32, blob.sha256);
        if let (Some(sha256), parts @ 1..) = (&mut sums.sha256, blob.parts()) {
            *sha256 = format!("{sha256}-{parts}");
            sums.is_composite = true;
        }
        sums
    }

    pub(crate) fn type_of(&self) -> s3s::dto::ChecksumType {
        use s3s::dto::ChecksumType as Type;
        Type::from_static(if self.is_composite { Type::COMPOSITE } else { Type::FULL_OBJECT })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn promised(headers: &[(&'static str, &'static str)]) -> S3Result<Promise> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Promise::of(&headers.collect())
    }

    #[test]
    fn promises_are_read_from_headers_and_trailers() {
        let found = promised(&[("x-amz-checksum-crc32", "AAAAAQ==")]).unwrap();
        assert_eq!(found.expected.crc32, Some(1));
        let found = promised(&[("x-amz-trailer", "x-amz-checksum-sha256")]).unwrap();
        assert!(found.needs_sha256());
        assert_eq!(found.keep(None).unwrap_err().code().as_str(), "MalformedTrailerError");
        let found = promised(&[("x-amz-trailer", "x-amz-checksum-crc32")]).unwrap();
        let trailers = HeaderMap::from_iter([(
            HeaderName::from_static("x-amz-checksum-crc32"),
            HeaderValue::from_static("AAAAAQ=="),
        )]);
        assert_eq!(found.keep(Some(&trailers)).unwrap().crc32, Some(1));
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        for (headers, code) in [
            (&[("content-md5", "AAAA")][..], "InvalidDigest"),
            (&[("x-amz-checksum-crc32", "AAAA")], "InvalidRequest"),
            (&[("x-amz-checksum-crc32c", "AAAAAA==")], "InvalidRequest"),
            (&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")], "InvalidRequest"),
            (&[("x-amz-trailer", "x-amz-checksum-sha1")], "InvalidRequest"),
            (&[("x-amz-trailer", "x-other")], "InvalidRequest"),
            (
                &[("x-amz-checksum-crc32", "AAAAAQ=="), ("x-amz-trailer", "x-amz-checksum-crc32")],
                "InvalidRequest",
            ),
        ] {
            assert_eq!(promised(headers).unwrap_err().code().as_str(), code, "{headers:?}");
        }
    }
}
