//! Checksums, computed while the bytes of a blob arrive; some only if the caller asks for them
//! before the first byte.

use crc_fast::CrcAlgorithm::{Crc32Iscsi, Crc64Nvme};
use crc32fast::Hasher as Crc32;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::BucketError;

/// Selects checksums to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraHashes {
    /// CRC-32C.
    pub crc32c: bool,
    /// CRC-64/NVME.
    pub crc64nvme: bool,
    /// SHA-1.
    pub sha1: bool,
}

/// Checksums of a blob or part in addition to CRC-32 and SHA-256. The SHA-1 of a multipart upload
/// is the SHA-1 of the SHA-1s of its parts, as in S3; its CRCs are of the whole or composite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "HexChecksums", into = "HexChecksums")]
pub struct ExtraChecksums {
    /// CRC-32C.
    pub crc32c: Option<u32>,
    /// CRC-64/NVME.
    pub crc64nvme: Option<u64>,
    /// SHA-1.
    pub sha1: Option<[u8; 20]>,
    /// CRC-32 of the CRC-32s of the parts.
    pub composite_crc32: Option<u32>,
    /// CRC-32C of the CRC-32Cs of the parts.
    pub composite_crc32c: Option<u32>,
}

/// Hexadecimal digits, because some JSON readers have no 64-bit integers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HexChecksums {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc64nvme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha1: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    composite_crc32: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    composite_crc32c: Option<String>,
}

impl From<ExtraChecksums> for HexChecksums {
    fn from(sums: ExtraChecksums) -> Self {
        let crc = |it: u32| HEXLOWER.encode(&it.to_be_bytes());
        Self {
            crc32c: sums.crc32c.map(crc),
            crc64nvme: sums.crc64nvme.map(|it| HEXLOWER.encode(&it.to_be_bytes())),
            sha1: sums.sha1.map(|it| HEXLOWER.encode(&it)),
            composite_crc32: sums.composite_crc32.map(crc),
            composite_crc32c: sums.composite_crc32c.map(crc),
        }
    }
}

impl From<HexChecksums> for ExtraChecksums {
    fn from(stored: HexChecksums) -> Self {
        let crc = |it: Option<String>| it.as_deref().and_then(unhex).map(u32::from_be_bytes);
        Self {
            crc32c: crc(stored.crc32c),
            crc64nvme: stored.crc64nvme.as_deref().and_then(unhex).map(u64::from_be_bytes),
            sha1: stored.sha1.as_deref().and_then(unhex),
            composite_crc32: crc(stored.composite_crc32),
            composite_crc32c: crc(stored.composite_crc32c),
        }
    }
}

impl ExtraChecksums {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first declared checksum that differs from the computed one.
    pub(crate) fn first_mismatch(&self, found: &Self) -> Option<&'static str> {
        let crc = |it: Option<u32>, found: Option<u32>| it.is_some() && it != found;
        let checks = [
            (crc(self.crc32c, found.crc32c), "CRC-32C"),
            (self.crc64nvme.is_some() && self.crc64nvme != found.crc64nvme, "CRC-64"),
            (self.sha1.is_some() && self.sha1 != found.sha1, "SHA-1"),
            (crc(self.composite_crc32, found.composite_crc32), "composite CRC-32"),
            (crc(self.composite_crc32c, found.composite_crc32c), "composite CRC-32C"),
        ];
        checks.into_iter().find(|it| it.0).map(|it| it.1)
    }
}

/// Decodes hexadecimal digits; `None` if they are not exactly `N` bytes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Checksums in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraDigests {
    crc32c: Option<crc_fast::Digest>,
    crc64nvme: Option<crc_fast::Digest>,
    sha1: Option<Sha1>,
}

impl ExtraDigests {
    pub(crate) fn new(hashes: ExtraHashes) -> Self {
        Self {
            crc32c: hashes.crc32c.then(|| crc_fast::Digest::new(Crc32Iscsi)),
            crc64nvme: hashes.crc64nvme.then(|| crc_fast::Digest::new(Crc64Nvme)),
            sha1: hashes.sha1.then(Sha1::new),
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let Self { crc32c, crc64nvme, sha1 } = self;
        crc32c.iter_mut().chain(crc64nvme).for_each(|it| it.update(bytes));
        sha1.iter_mut().for_each(|it| it.update(bytes));
    }

    pub(crate) fn finish(self) -> ExtraChecksums {
        ExtraChecksums {
            crc32c: self.crc32c.and_then(|it| u32::try_from(it.finalize()).ok()),
            crc64nvme: self.crc64nvme.map(|it| it.finalize()),
            sha1: self.sha1.map(|it| it.finalize().into()),
            ..ExtraChecksums::default()
        }
    }
}

/// Hash computed in addition to the CRC-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashes {
    /// Takes a third of the time of MD5, because processors have instructions for it.
    Sha256,
    /// S3 clients expect it as the ETag.
    Md5,
    Both,
}

/// Checksums in progress.
#[derive(Clone, Debug)]
pub(crate) struct Digests {
    md5: Option<Md5>,
    crc32: Crc32,
    sha256: Option<Sha256>,
    /// Boxed, because their tables would make every writer large.
    more: Box<ExtraDigests>,
    size: u64,
}

impl Digests {
    pub(crate) fn new(hashes: Hashes) -> Self {
        let md5 = (hashes != Hashes::Sha256).then(Md5::new);
        let sha256 = (hashes != Hashes::Md5).then(Sha256::new);
        Self { md5, crc32: Crc32::new(), sha256, more: Box::default(), size: 0 }
    }

    /// Computes these checksums too.
    pub(crate) fn and(&mut self, more: ExtraHashes) {
        *self.more = ExtraDigests::new(more);
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        self.crc32.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.more.add(bytes);
        self.size += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> Checksums {
        Checksums {
            size: self.size,
            md5: self.md5.map(|it| it.finalize().into()),
            crc32: self.crc32.finalize(),
            sha256: self.sha256.map(|it| it.finalize().into()),
            more: self.more.finish(),
        }
    }
}

/// The checksums of a blob or part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    pub(crate) size: u64,
    pub(crate) md5: Option<[u8; 16]>,
    pub(crate) crc32: u32,
    pub(crate) sha256: Option<[u8; 32]>,
    pub(crate) more: ExtraChecksums,
}

impl Checksums {
    /// The ETag of a content that was written in one piece.
    pub(crate) fn tag(&self) -> String {
        let md5 = self.md5.as_ref().map(|it| &it[..]);
        // Exactly one of them exists.
        HEXLOWER.encode(md5.or(self.sha256.as_ref().map(|it| &it[..])).unwrap_or_default())
    }
}

/// Size and checksums that the sender declares. All of them are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedContent {
    /// Size in bytes.
    pub size: Option<u64>,
    /// MD5. Verified only if the writer was created to compute it.
    pub md5: Option<[u8; 16]>,
    /// CRC-32.
    pub crc32: Option<u32>,
    /// SHA-256. Verified only if the writer was created to compute it.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums. Verified only if the writer was created to compute them.
    pub more: ExtraChecksums,
}

impl ExpectedContent {
    pub(crate) fn check(&self, found: &Checksums) -> Result<(), BucketError> {
        if let Some(expected) = self.size
            && expected != found.size
        {
            return Err(BucketError::Length { expected, actual: found.size });
        }
        let wrong = |algorithm| Err(BucketError::Checksum { algorithm });
        if self.md5.is_some() && self.md5 != found.md5 {
            return wrong("MD5");
        }
        if self.crc32.is_some_and(|it| it != found.crc32) {
            return wrong("CRC-32");
        }
        if self.sha256.is_some() && self.sha256 != found.sha256 {
            return wrong("SHA-256");
        }
        if let Some(algorithm) = self.more.first_mismatch(&found.more) {
            return wrong(algorithm);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_their_standards_and_round_trip() {
        let all = ExtraHashes { crc32c: true, crc64nvme: true, sha1: true };
        let mut digests = ExtraDigests::new(all);
        digests.add(b"12345");
        digests.add(b"6789");
        let sums = digests.finish();
        assert_eq!(sums.crc32c, Some(0xe306_9283));
        assert_eq!(sums.crc64nvme, Some(0xae8b_1486_0a79_9888));
        assert_eq!(
            HEXLOWER.encode(&sums.sha1.unwrap()),
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441"
        );
        let sums = ExtraChecksums { composite_crc32: Some(1), composite_crc32c: Some(2), ..sums };
        let json = serde_json::to_string(&sums).unwrap();
        assert_eq!(serde_json::from_str::<ExtraChecksums>(&json).unwrap(), sums);
        assert_eq!(
            serde_json::from_str::<ExtraChecksums>("{}").unwrap(),
            ExtraChecksums::default()
        );
    }

    #[test]
    fn hexadecimal_digits_have_either_case_and_an_exact_length() {
        assert_eq!(unhex("00fFa1"), Some([0, 255, 161]));
        for wrong in ["00ff", "00ffa1b2", "00ffg1", "+0ffa1", "00ffé"] {
            assert_eq!(unhex::<3>(wrong), None, "{wrong}");
        }
    }
}
