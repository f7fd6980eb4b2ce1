//! Checksums, computed while the bytes of a blob arrive.

use crc32fast::Hasher as Crc32;
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use sha2::Sha256;

use crate::{BucketError, ExtraChecksums, ExtraHashes, extra_checksums::ExtraDigests};

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
