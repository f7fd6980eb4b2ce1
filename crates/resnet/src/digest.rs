//! Checksums as people write them.

use std::{
    io::{self, Read},
    path::Path,
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The SHA-256 of a file, in hexadecimal. Tells how many bytes it has read.
pub(super) fn sha256_of_file(path: &Path, mut read: impl FnMut(u64)) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Ok(HEXLOWER.encode(&digest.finalize()));
        }
        digest.update(&buffer[..len]);
        done += len as u64;
        read(done);
    }
}
