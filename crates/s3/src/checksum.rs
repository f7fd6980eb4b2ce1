//! Checksums that a client declares, in headers or in a trailer after the body.

use data_encoding::{BASE64, HEXLOWER};
use http::{HeaderMap, StatusCode};
use s3s::{
    S3Result,
    dto::{ChecksumAlgorithm, ChecksumType},
    s3_error,
};
use steadfast_bucket::{Blob, ChecksumKind, Checksums, ExpectedContent, Hashes, Part};

use crate::errors::coded;

/// A checksum algorithm of S3.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Algorithm {
    name: &'static str,
    /// Length of a checksum.
    bytes: usize,
    /// The kind of a body, or of the whole of a multipart upload; `None` if S3 has only that of the
    /// checksums of the parts for an upload.
    full: Option<ChecksumKind>,
    composite: Option<ChecksumKind>,
}

/// The algorithms, in the order of the fields of inputs.
pub(crate) static ALGORITHMS: [Algorithm; 5] = [
    Algorithm {
        name: "CRC32",
        bytes: 4,
        full: Some(ChecksumKind::Crc32),
        composite: Some(ChecksumKind::CompositeCrc32),
    },
    Algorithm {
        name: "CRC32C",
        bytes: 4,
        full: Some(ChecksumKind::Crc32c),
        composite: Some(ChecksumKind::CompositeCrc32c),
    },
    Algorithm { name: "CRC64NVME", bytes: 8, full: Some(ChecksumKind::Crc64nvme), composite: None },
    Algorithm { name: "SHA1", bytes: 20, full: None, composite: Some(ChecksumKind::Sha1) },
    Algorithm { name: "SHA256", bytes: 32, full: None, composite: Some(ChecksumKind::Sha256) },
];

impl Algorithm {
    /// The algorithm of this name in S3.
    pub(crate) fn of(name: &str) -> S3Result<&'static Self> {
        let name = name.to_ascii_uppercase();
        ALGORITHMS.iter().find(|it| it.name == name).ok_or_else(|| {
            s3_error!(
                InvalidRequest,
                "the checksum {name} is not supported; use CRC64NVME, CRC32, CRC32C, SHA1 or \
                 SHA256"
            )
        })
    }

    /// Whether a multipart upload can have a checksum of the checksums of its parts.
    pub(crate) fn has_composite(&self) -> bool {
        self.composite.is_some()
    }

    /// The checksum of a multipart upload that announces this algorithm, and maybe a type. Without
    /// a type it is composite if the algorithm allows that, as in S3.
    pub(crate) fn of_upload(&self, type_: Option<&ChecksumType>) -> S3Result<ChecksumKind> {
        let kind = match type_.map(ChecksumType::as_str) {
            None => self.composite.or(self.full),
            Some(ChecksumType::COMPOSITE) => self.composite,
            Some(ChecksumType::FULL_OBJECT) => self.full,
            Some(_) => None,
        };
        kind.ok_or_else(|| {
            s3_error!(
                InvalidRequest,
                "x-amz-checksum-type is FULL_OBJECT with CRC64NVME, COMPOSITE with SHA1 and \
                 SHA256, and either with CRC32 and CRC32C"
            )
        })
    }
}

/// The announced checksum of an upload, as outputs have it.
pub(crate) fn announced(
    checksum: Option<ChecksumKind>,
) -> (Option<ChecksumAlgorithm>, Option<ChecksumType>) {
    let has = |it: &&Algorithm| checksum.is_some() && [it.full, it.composite].contains(&checksum);
    let Some(algorithm) = ALGORITHMS.iter().find(has) else { return (None, None) };
    let is_full = algorithm.full == checksum;
    let type_ = if is_full { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE };
    let algorithm = ChecksumAlgorithm::from_static(algorithm.name);
    (Some(algorithm), Some(ChecksumType::from_static(type_)))
}

const HEADER: &str = "x-amz-checksum-";

/// The declared checksums of a body.
#[derive(Debug, Default)]
pub(crate) struct DeclaredChecksums {
    /// Checksums in the headers.
    pub(crate) expected: ExpectedContent,
    /// The checksum that a trailer will contain.
    pub(crate) trailer: Option<&'static Algorithm>,
}

impl DeclaredChecksums {
    /// Reads the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let mut expected = ExpectedContent::default();
        if let Some(value) = headers.get("content-md5") {
            let md5 = decode_base64(value.to_str().unwrap_or_default());
            let text = "Content-MD5 must be the base64 of 16 bytes";
            let md5 = md5.and_then(|it| it.try_into().ok());
            expected.md5 = Some(md5.ok_or_else(|| s3_error!(InvalidDigest, "{text}"))?);
        }
        let mut count = 0;
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix(HEADER) else { continue };
            if ["algorithm", "mode", "type"].contains(&name) {
                continue;
            }
            count += 1;
            let value = value.to_str().unwrap_or_default();
            declare_checksum(&mut expected, Algorithm::of(name)?, value)?;
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

    /// The hashes to compute: the MD5, which is the ETag, and those of the declared checksums.
    pub(crate) fn hashes(&self) -> Hashes {
        let expected = &self.expected;
        let declared = expected.more.keys().copied();
        let declared = declared.chain(expected.sha256.map(|_| ChecksumKind::Sha256));
        let trailer = self.trailer.and_then(|it| it.full.or(it.composite));
        let md5 = Hashes { md5: true, ..Hashes::default() };
        declared.chain(trailer).fold(md5, Hashes::and)
    }

    /// Adds the checksum in the trailer.
    pub(crate) fn with_trailer(self, trailers: Option<&HeaderMap>) -> S3Result<ExpectedContent> {
        let Self { mut expected, trailer } = self;
        let Some(algorithm) = trailer else { return Ok(expected) };
        let name = format!("{HEADER}{}", algorithm.name.to_ascii_lowercase());
        let value = trailers.and_then(|it| it.get(&name)).and_then(|it| it.to_str().ok());
        let Some(value) = value else {
            let text = "the trailer that x-amz-trailer declares is missing; nothing was stored";
            return Err(coded("MalformedTrailerError", StatusCode::BAD_REQUEST, text));
        };
        declare_checksum(&mut expected, algorithm, value)?;
        Ok(expected)
    }
}

/// Adds a checksum, in base64, to the expected ones.
pub(crate) fn declare_checksum(
    expected: &mut ExpectedContent,
    algorithm: &Algorithm,
    value: &str,
) -> S3Result<()> {
    declare(expected, algorithm, algorithm.full.or(algorithm.composite), value)
}

/// Adds a checksum of the checksums of the parts, in base64, to the expected ones.
pub(crate) fn declare_composite(
    expected: &mut ExpectedContent,
    algorithm: &Algorithm,
    value: &str,
) -> S3Result<()> {
    declare(expected, algorithm, algorithm.composite, value)
}

fn declare(
    expected: &mut ExpectedContent,
    Algorithm { name, bytes, .. }: &Algorithm,
    kind: Option<ChecksumKind>,
    value: &str,
) -> S3Result<()> {
    let sum = decode_base64(value)
        .filter(|it| it.len() == *bytes)
        .ok_or_else(|| s3_error!(InvalidRequest, "{name} must be the base64 of {bytes} bytes"))?;
    match kind {
        Some(ChecksumKind::Crc32) => {
            expected.crc32 = sum.try_into().ok().map(u32::from_be_bytes);
        }
        Some(ChecksumKind::Sha256) => expected.sha256 = sum.try_into().ok(),
        Some(kind) => _ = expected.more.insert(kind, HEXLOWER.encode(&sum)),
        None => {
            let text = "is a checksum of the whole; send it without a number of parts";
            return Err(s3_error!(InvalidRequest, "{name} {text}"));
        }
    }
    Ok(())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    // The decoder also takes several padded texts in a row.
    BASE64.decode(text.as_bytes()).ok().filter(|it| BASE64.encode(it) == text)
}

/// Checksums of a blob or part as S3 reports them: a composite CRC, a hash, or else CRCs of the
/// whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChecksumFields {
    pub(crate) crc32: Option<String>,
    pub(crate) crc32c: Option<String>,
    pub(crate) crc64nvme: Option<String>,
    pub(crate) sha1: Option<String>,
    pub(crate) sha256: Option<String>,
    /// Whether it is a checksum of the parts' checksums.
    pub(crate) is_composite: bool,
}

impl ChecksumFields {
    fn of(crc32: u32, sha256: Option<[u8; 32]>, more: &Checksums) -> Self {
        let (sha1, sha256) = (shown(more, ChecksumKind::Sha1), sha256.map(|it| BASE64.encode(&it)));
        if sha1.is_some() || sha256.is_some() {
            return Self { sha1, sha256, ..Self::default() };
        }
        Self {
            crc32: Some(BASE64.encode(&crc32.to_be_bytes())),
            crc32c: shown(more, ChecksumKind::Crc32c),
            crc64nvme: shown(more, ChecksumKind::Crc64nvme),
            ..Self::default()
        }
    }

    pub(crate) fn of_part(part: &Part) -> Self {
        Self::of(part.crc32, part.sha256, &part.more)
    }

    pub(crate) fn of_blob(blob: &Blob) -> Self {
        let mut sums = Self::of(blob.crc32, blob.sha256, &blob.more);
        let parts @ 1.. = blob.parts() else { return sums };
        let crc32 = shown(&blob.more, ChecksumKind::CompositeCrc32);
        let crc32c = shown(&blob.more, ChecksumKind::CompositeCrc32c);
        if crc32.is_some() || crc32c.is_some() {
            sums = Self { crc32, crc32c, is_composite: true, ..Self::default() };
        }
        sums.is_composite |= sums.sha1.is_some() || sums.sha256.is_some();
        if sums.is_composite {
            let all = [&mut sums.crc32, &mut sums.crc32c, &mut sums.sha1, &mut sums.sha256];
            for sum in all.into_iter().flatten() {
                *sum = format!("{sum}-{parts}");
            }
        }
        sums
    }

    pub(crate) fn type_of(&self) -> ChecksumType {
        let is_composite = self.is_composite;
        let name = if is_composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
        ChecksumType::from_static(name)
    }
}

/// A stored checksum in base64.
fn shown(sums: &Checksums, kind: ChecksumKind) -> Option<String> {
    HEXLOWER.decode(sums.get(&kind)?.as_bytes()).ok().map(|it| BASE64.encode(&it))
}

/// Sets the checksum fields of an output. The outputs have these fields in common, but no trait.
macro_rules! with_checksums {
    ($output:ident, $sums:expr) => {{
        let sums = $sums;
        $output {
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
            ..$output::default()
        }
    }};
}
pub(crate) use with_checksums;

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn promised(headers: &[(&'static str, &'static str)]) -> S3Result<DeclaredChecksums> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        DeclaredChecksums::of(&headers.collect())
    }

    #[test]
    fn declared_checksums_are_read_from_headers_and_trailers() {
        let found = promised(&[("x-amz-checksum-crc32", "AAAAAQ==")]).unwrap();
        assert_eq!(found.expected.crc32, Some(1));
        let found = promised(&[("x-amz-trailer", "x-amz-checksum-sha256")]).unwrap();
        assert!(found.hashes().sha256);
        assert_eq!(found.with_trailer(None).unwrap_err().code().as_str(), "MalformedTrailerError");
        let found = promised(&[("x-amz-trailer", "x-amz-checksum-crc32")]).unwrap();
        let trailers = HeaderMap::from_iter([(
            HeaderName::from_static("x-amz-checksum-crc32"),
            HeaderValue::from_static("AAAAAQ=="),
        )]);
        assert_eq!(found.with_trailer(Some(&trailers)).unwrap().crc32, Some(1));
    }

    #[test]
    fn an_unsupported_checksum_is_refused() {
        for (headers, code) in [
            (&[("content-md5", "AAAA")][..], "InvalidDigest"),
            (&[("x-amz-checksum-crc32", "AAAA")], "InvalidRequest"),
            (&[("x-amz-checksum-crc32", "not base64")], "InvalidRequest"),
            (&[("x-amz-checksum-crc32c", "AAAA")], "InvalidRequest"),
            (&[("x-amz-checksum-crc64nvme", "AAAAAA==")], "InvalidRequest"),
            (&[("x-amz-checksum-md5", "AAAA")], "InvalidRequest"),
            (&[("x-amz-trailer", "x-amz-checksum-md5")], "InvalidRequest"),
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
