//! Checksums that a client declares, in headers or in a trailer after the body.

use http::HeaderMap;
use s3s::{
    S3Error, S3ErrorCode, S3Result,
    dto::{ChecksumAlgorithm, ChecksumType},
    s3_error,
};
use steadfast_bucket::{Blob, ExpectedContent, ExtraChecksums, ExtraHashes, Part, UploadChecksum};

use crate::convert::{base64, decode_base64};

/// Checksum algorithms of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    /// The algorithm of this name in S3.
    pub(crate) fn of(name: &str) -> S3Result<Self> {
        match name.to_ascii_uppercase().as_str() {
            "CRC32" => Ok(Algorithm::Crc32),
            "CRC32C" => Ok(Algorithm::Crc32c),
            "CRC64NVME" => Ok(Algorithm::Crc64Nvme),
            "SHA1" => Ok(Algorithm::Sha1),
            "SHA256" => Ok(Algorithm::Sha256),
            other => Err(s3_error!(
                InvalidRequest,
                "the checksum {other} is not supported; use CRC64NVME, CRC32, CRC32C, SHA1 or \
                 SHA256"
            )),
        }
    }

    fn header(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32c => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha1 => "x-amz-checksum-sha1",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// The checksum of a multipart upload that announces this algorithm, and maybe a type. Without
    /// a type it is composite if the algorithm allows that, as in S3.
    pub(crate) fn of_upload(self, type_: Option<&ChecksumType>) -> S3Result<UploadChecksum> {
        let type_ = type_.map(ChecksumType::as_str);
        let is_full = type_.is_none_or(|it| it == ChecksumType::FULL_OBJECT);
        let is_composite = type_.is_none_or(|it| it == ChecksumType::COMPOSITE);
        match self {
            Algorithm::Crc32 if is_composite => Ok(UploadChecksum::Crc32Composite),
            Algorithm::Crc32 if is_full => Ok(UploadChecksum::Crc32),
            Algorithm::Crc32c if is_composite => Ok(UploadChecksum::Crc32cComposite),
            Algorithm::Crc32c if is_full => Ok(UploadChecksum::Crc32c),
            Algorithm::Crc64Nvme if is_full => Ok(UploadChecksum::Crc64Nvme),
            Algorithm::Sha1 if is_composite => Ok(UploadChecksum::Sha1),
            Algorithm::Sha256 if is_composite => Ok(UploadChecksum::Sha256),
            Algorithm::Crc32
            | Algorithm::Crc32c
            | Algorithm::Crc64Nvme
            | Algorithm::Sha1
            | Algorithm::Sha256 => Err(s3_error!(
                InvalidRequest,
                "x-amz-checksum-type is FULL_OBJECT with CRC64NVME, COMPOSITE with SHA1 and \
                 SHA256, and either with CRC32 and CRC32C"
            )),
        }
    }
}

/// The announced checksum of an upload, as outputs have it.
pub(crate) fn announced(
    checksum: Option<UploadChecksum>,
) -> (Option<ChecksumAlgorithm>, Option<ChecksumType>) {
    let (full, composite) = (ChecksumType::FULL_OBJECT, ChecksumType::COMPOSITE);
    let shown = checksum.map(|it| match it {
        UploadChecksum::Crc32 => (ChecksumAlgorithm::CRC32, full),
        UploadChecksum::Crc32Composite => (ChecksumAlgorithm::CRC32, composite),
        UploadChecksum::Crc32c => (ChecksumAlgorithm::CRC32C, full),
        UploadChecksum::Crc32cComposite => (ChecksumAlgorithm::CRC32C, composite),
        UploadChecksum::Crc64Nvme => (ChecksumAlgorithm::CRC64NVME, full),
        UploadChecksum::Sha1 => (ChecksumAlgorithm::SHA1, composite),
        UploadChecksum::Sha256 => (ChecksumAlgorithm::SHA256, composite),
    });
    let algorithm = shown.map(|it| ChecksumAlgorithm::from_static(it.0));
    (algorithm, shown.map(|it| ChecksumType::from_static(it.1)))
}

const HEADER: &str = "x-amz-checksum-";

/// The declared checksums of a body.
#[derive(Debug, Default)]
pub(crate) struct DeclaredChecksums {
    /// Checksums in the headers.
    pub(crate) expected: ExpectedContent,
    /// The checksum that a trailer will contain.
    pub(crate) trailer: Option<Algorithm>,
}

impl DeclaredChecksums {
    /// Reads the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let mut expected = ExpectedContent::default();
        if let Some(value) = headers.get("content-md5") {
            let md5 = value.to_str().ok().and_then(decode_base64);
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
            declare_checksum(
                &mut expected,
                Algorithm::of(name)?,
                value.to_str().unwrap_or_default(),
            )?;
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

    /// Other checksums that must be computed.
    pub(crate) fn more(&self) -> ExtraHashes {
        let (more, trailer) = (self.expected.more, self.trailer);
        ExtraHashes {
            crc32c: more.crc32c.is_some() || trailer == Some(Algorithm::Crc32c),
            crc64nvme: more.crc64nvme.is_some() || trailer == Some(Algorithm::Crc64Nvme),
            sha1: more.sha1.is_some() || trailer == Some(Algorithm::Sha1),
        }
    }

    /// Adds the checksum in the trailer.
    pub(crate) fn with_trailer(self, trailers: Option<&HeaderMap>) -> S3Result<ExpectedContent> {
        let Self { mut expected, trailer } = self;
        let Some(algorithm) = trailer else { return Ok(expected) };
        let name = algorithm.header();
        let value = trailers.and_then(|it| it.get(name)).and_then(|it| it.to_str().ok());
        let Some(value) = value else {
            let text = "the trailer that x-amz-trailer declares is missing; nothing was stored";
            let mut error =
                S3Error::with_message(S3ErrorCode::Custom("MalformedTrailerError".into()), text);
            error.set_status_code(http::StatusCode::BAD_REQUEST);
            return Err(error);
        };
        declare_checksum(&mut expected, algorithm, value)?;
        Ok(expected)
    }
}

/// Adds a checksum, in base64, to the expected ones.
pub(crate) fn declare_checksum(
    expected: &mut ExpectedContent,
    algorithm: Algorithm,
    value: &str,
) -> S3Result<()> {
    let bad = |name, len| s3_error!(InvalidRequest, "{name} must be the base64 of {len} bytes");
    let more = &mut expected.more;
    match algorithm {
        Algorithm::Crc32 => {
            let it = decode_base64(value).map(u32::from_be_bytes);
            expected.crc32 = Some(it.ok_or_else(|| bad("CRC32", 4))?);
        }
        Algorithm::Crc32c => {
            let it = decode_base64(value).map(u32::from_be_bytes);
            more.crc32c = Some(it.ok_or_else(|| bad("CRC32C", 4))?);
        }
        Algorithm::Crc64Nvme => {
            let it = decode_base64(value).map(u64::from_be_bytes);
            more.crc64nvme = Some(it.ok_or_else(|| bad("CRC64NVME", 8))?);
        }
        Algorithm::Sha1 => more.sha1 = Some(decode_base64(value).ok_or_else(|| bad("SHA1", 20))?),
        Algorithm::Sha256 => {
            expected.sha256 = Some(decode_base64(value).ok_or_else(|| bad("SHA256", 32))?);
        }
    }
    Ok(())
}

/// Adds a checksum of the checksums of the parts, in base64, to the expected ones.
pub(crate) fn declare_composite(
    expected: &mut ExpectedContent,
    algorithm: Algorithm,
    value: &str,
) -> S3Result<()> {
    let mut declared = ExpectedContent::default();
    declare_checksum(&mut declared, algorithm, value)?;
    match algorithm {
        Algorithm::Crc32 => expected.more.composite_crc32 = declared.crc32,
        Algorithm::Crc32c => expected.more.composite_crc32c = declared.more.crc32c,
        Algorithm::Crc64Nvme => {
            let text = "CRC64NVME is a checksum of the whole; send it without a number of parts";
            return Err(s3_error!(InvalidRequest, "{text}"));
        }
        Algorithm::Sha1 => expected.more.sha1 = declared.more.sha1,
        Algorithm::Sha256 => expected.sha256 = declared.sha256,
    }
    Ok(())
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
    fn of(crc32: u32, sha256: Option<[u8; 32]>, more: ExtraChecksums) -> Self {
        let (sha1, sha256) = (more.sha1.map(|it| base64(&it)), sha256.map(|it| base64(&it)));
        if sha1.is_some() || sha256.is_some() {
            return Self { sha1, sha256, ..Self::default() };
        }
        Self {
            crc32: Some(base64(&crc32.to_be_bytes())),
            crc32c: more.crc32c.map(|it| base64(&it.to_be_bytes())),
            crc64nvme: more.crc64nvme.map(|it| base64(&it.to_be_bytes())),
            ..Self::default()
        }
    }

    pub(crate) fn of_part(part: &Part) -> Self {
        Self::of(part.crc32, part.sha256, part.more)
    }

    pub(crate) fn of_blob(blob: &Blob) -> Self {
        let mut sums = Self::of(blob.crc32, blob.sha256, blob.more);
        let parts @ 1.. = blob.parts() else { return sums };
        let composite = |it: Option<u32>| it.map(|it| base64(&it.to_be_bytes()));
        let crc32 = composite(blob.more.composite_crc32);
        let crc32c = composite(blob.more.composite_crc32c);
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
        assert!(found.needs_sha256());
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
