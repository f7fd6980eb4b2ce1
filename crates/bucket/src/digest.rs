//! Checksums, computed while the bytes of a blob arrive; some only if the caller asks for them
//! before the first byte.

use std::collections::BTreeMap;

use crc_fast::CrcAlgorithm::{Crc32Iscsi, Crc64Nvme};
use crc32fast::Hasher as Crc32;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::BucketError;

/// A kind of checksum. In a multipart upload the hashes and the composite CRCs are those of the
/// checksums of the parts, as in S3; the other CRCs are those of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChecksumKind {
    /// CRC-32.
    Crc32,
    /// CRC-32C.
    Crc32c,
    /// CRC-64/NVME.
    Crc64nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// CRC-32 of the CRC-32s of the parts.
    CompositeCrc32,
    /// CRC-32C of the CRC-32Cs of the parts.
    CompositeCrc32c,
}

// The names in the rows of uploads.
steadfast_store::texts! {
    ChecksumKind {
        Crc32 = "crc32",
        Crc32c = "crc32c",
        Crc64nvme = "crc64-nvme",
        Sha1 = "sha1",
        Sha256 = "sha256",
        CompositeCrc32 = "crc32-composite",
        CompositeCrc32c = "crc32c-composite",
    }
}

impl ChecksumKind {
    /// The name in errors.
    fn label(self) -> &'static str {
        match self {
            ChecksumKind::Crc32 => "CRC-32",
            ChecksumKind::Crc32c => "CRC-32C",
            ChecksumKind::Crc64nvme => "CRC-64",
            ChecksumKind::Sha1 => "SHA-1",
            ChecksumKind::Sha256 => "SHA-256",
            ChecksumKind::CompositeCrc32 => "composite CRC-32",
            ChecksumKind::CompositeCrc32c => "composite CRC-32C",
        }
    }
}

/// Checksums of a blob or part in addition to CRC-32 and SHA-256, in hexadecimal digits.
pub type Checksums = BTreeMap<ChecksumKind, String>;

/// The first declared checksum that differs from the computed one.
pub(crate) fn first_mismatch(declared: &Checksums, found: &Checksums) -> Option<&'static str> {
    let differs = |(kind, sum): &(&ChecksumKind, &String)| {
        !found.get(kind).is_some_and(|it| it.eq_ignore_ascii_case(sum))
    };
    declared.iter().find(differs).map(|it| it.0.label())
}

/// Decodes hexadecimal digits; `None` if they are not exactly `N` bytes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Selects the hashes to compute in addition to the CRC-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// MD5. S3 clients expect it as the ETag.
    pub md5: bool,
    /// SHA-256. It takes a third of the time of MD5, because processors have instructions for it.
    pub sha256: bool,
    /// CRC-32C.
    pub crc32c: bool,
    /// CRC-64/NVME.
    pub crc64nvme: bool,
    /// SHA-1.
    pub sha1: bool,
}

impl Hashes {
    /// Also selects what a checksum of this kind is made of.
    pub fn and(mut self, kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Crc32 | ChecksumKind::CompositeCrc32 => {}
            ChecksumKind::Crc32c | ChecksumKind::CompositeCrc32c => self.crc32c = true,
            ChecksumKind::Crc64nvme => self.crc64nvme = true,
            ChecksumKind::Sha1 => self.sha1 = true,
            ChecksumKind::Sha256 => self.sha256 = true,
        }
        self
    }
}

/// Checksums in progress.
#[derive(Clone, Debug)]
pub(crate) struct Digests {
    md5: Option<Md5>,
    crc32: Crc32,
    sha256: Option<Sha256>,
    /// Boxed, because their tables would make every writer large.
    crc32c: Option<Box<crc_fast::Digest>>,
    crc64nvme: Option<Box<crc_fast::Digest>>,
    sha1: Option<Sha1>,
    size: u64,
}

impl Digests {
    pub(crate) fn new(hashes: Hashes) -> Self {
        Self {
            md5: hashes.md5.then(Md5::new),
            crc32: Crc32::new(),
            sha256: hashes.sha256.then(Sha256::new),
            crc32c: hashes.crc32c.then(|| Box::new(crc_fast::Digest::new(Crc32Iscsi))),
            crc64nvme: hashes.crc64nvme.then(|| Box::new(crc_fast::Digest::new(Crc64Nvme))),
            sha1: hashes.sha1.then(Sha1::new),
            size: 0,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let Self { md5, crc32, sha256, crc32c, crc64nvme, sha1, size } = self;
        md5.iter_mut().for_each(|it| it.update(bytes));
        crc32.update(bytes);
        sha256.iter_mut().for_each(|it| it.update(bytes));
        crc32c.iter_mut().chain(crc64nvme).for_each(|it| it.update(bytes));
        sha1.iter_mut().for_each(|it| it.update(bytes));
        *size += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> ContentSums {
        let crc32c = self.crc32c.map(|it| HEXLOWER.encode(&it.finalize().to_be_bytes()[4..]));
        let crc64nvme = self.crc64nvme.map(|it| HEXLOWER.encode(&it.finalize().to_be_bytes()));
        let more = [
            (ChecksumKind::Crc32c, crc32c),
            (ChecksumKind::Crc64nvme, crc64nvme),
            (ChecksumKind::Sha1, self.sha1.map(|it| HEXLOWER.encode(&it.finalize()))),
        ];
        ContentSums {
            size: self.size,
            md5: self.md5.map(|it| it.finalize().into()),
            crc32: self.crc32.finalize(),
            sha256: self.sha256.map(|it| it.finalize().into()),
            more: more.into_iter().filter_map(|(kind, sum)| Some((kind, sum?))).collect(),
        }
    }
}

/// The size and the checksums of a blob or part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentSums {
    pub(crate) size: u64,
    pub(crate) md5: Option<[u8; 16]>,
    pub(crate) crc32: u32,
    pub(crate) sha256: Option<[u8; 32]>,
    pub(crate) more: Checksums,
}

impl ContentSums {
    /// The ETag of a content that was written in one piece.
    pub(crate) fn tag(&self) -> String {
        let md5 = self.md5.as_ref().map(|it| &it[..]);
        // At least one of them exists.
        HEXLOWER.encode(md5.or(self.sha256.as_ref().map(|it| &it[..])).unwrap_or_default())
    }
}

/// Size and checksums that the sender declares. All of them are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    pub more: Checksums,
}

impl ExpectedContent {
    pub(crate) fn check(&self, found: &ContentSums) -> Result<(), BucketError> {
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
        if let Some(algorithm) = first_mismatch(&self.more, &found.more) {
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
        let all = [ChecksumKind::Crc32c, ChecksumKind::Crc64nvme, ChecksumKind::Sha1];
        let mut digests = Digests::new(all.into_iter().fold(Hashes::default(), Hashes::and));
        digests.add(b"12345");
        digests.add(b"6789");
        let sums = digests.finish().more;
        let json = r#"{"crc32c":"e3069283","crc64nvme":"ae8b14860a799888",
            "sha1":"f7c3bc1d808e04732adf679965ccc34ca7ae3441"}"#;
        let json = json.split_whitespace().collect::<String>();
        assert_eq!(serde_json::to_string(&sums).unwrap(), json);
        assert_eq!(serde_json::from_str::<Checksums>(&json).unwrap(), sums);
        let composite = [(ChecksumKind::CompositeCrc32, String::from("00000001"))];
        let json = serde_json::to_string(&Checksums::from(composite)).unwrap();
        assert_eq!(json, r#"{"compositeCrc32":"00000001"}"#);
    }

    #[test]
    fn hexadecimal_digits_have_either_case_and_an_exact_length() {
        assert_eq!(unhex("00fFa1"), Some([0, 255, 161]));
        for wrong in ["00ff", "00ffa1b2", "00ffg1", "+0ffa1", "00ffé"] {
            assert_eq!(unhex::<3>(wrong), None, "{wrong}");
        }
    }
}
