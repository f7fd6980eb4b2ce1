//! Kinds of media, told by the first bytes of a file, and their size in pixels.

mod boxes;
mod size;
mod webm;

use serde::{Deserialize, Serialize};
use steadfast_images::ImageFormat;

pub use self::size::MediaSize;

/// Bytes that are enough to tell the kind.
pub const SNIFF_BYTES: usize = 64;

/// The kinds that are kept: a browser shows or plays them, and never runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
    /// GIF.
    Gif,
    /// MPEG-4.
    Mp4,
    /// WebM.
    Webm,
}

impl MediaKind {
    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            MediaKind::Png => "image/png",
            MediaKind::Jpeg => "image/jpeg",
            MediaKind::Webp => "image/webp",
            MediaKind::Gif => "image/gif",
            MediaKind::Mp4 => "video/mp4",
            MediaKind::Webm => "video/webm",
        }
    }

    /// How names of such files end, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            MediaKind::Png => "png",
            MediaKind::Jpeg => "jpg",
            MediaKind::Webp => "webp",
            MediaKind::Gif => "gif",
            MediaKind::Mp4 => "mp4",
            MediaKind::Webm => "webm",
        }
    }

    /// The kind that an extension promises.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "png" => MediaKind::Png,
            "jpg" | "jpeg" => MediaKind::Jpeg,
            "webp" => MediaKind::Webp,
            "gif" => MediaKind::Gif,
            "mp4" => MediaKind::Mp4,
            "webm" => MediaKind::Webm,
            _ => return None,
        })
    }
}

/// Brands of MPEG-4 files that players know. Pictures in the same box (HEIC, AVIF) and QuickTime
/// are not among them.
const MP4_BRANDS: [&[u8; 4]; 12] = [
    b"isom", b"iso2", b"iso3", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ",
    b"dash", b"msdh",
];

/// The kind by the first bytes, whatever the name is; `None` for everything else. SVG and HTML are
/// programs, so they are refused.
pub fn sniff_media(first: &[u8]) -> Option<MediaKind> {
    let first = &first[..first.len().min(SNIFF_BYTES)];
    if let Ok(format) = ImageFormat::sniff(first) {
        return Some(match format {
            ImageFormat::Png => MediaKind::Png,
            ImageFormat::Jpeg => MediaKind::Jpeg,
            ImageFormat::Gif => MediaKind::Gif,
            ImageFormat::Webp => MediaKind::Webp,
        });
    }
    if first.get(4..8) == Some(b"ftyp") {
        let brand = first.get(8..12)?;
        MP4_BRANDS.iter().any(|it| it.as_slice() == brand).then_some(MediaKind::Mp4)
    } else if first.starts_with(b"\x1a\x45\xdf\xa3") {
        // The same container as Matroska: its document type follows within the header.
        let is_webm = first.windows(7).any(|it| it == b"\x42\x82\x84webm");
        is_webm.then_some(MediaKind::Webm)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_is_known_by_its_first_bytes() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], MediaKind::Png),
            (b"\xff\xd8\xff\xe0", MediaKind::Jpeg),
            (b"GIF87a", MediaKind::Gif),
            (b"GIF89a", MediaKind::Gif),
            (b"RIFF\x10\0\0\0WEBPVP8 ", MediaKind::Webp),
            (b"\0\0\0\x20ftypisom\0\0\x02\0", MediaKind::Mp4),
            (b"\0\0\0\x20ftypmp42", MediaKind::Mp4),
            (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm", MediaKind::Webm),
        ] {
            assert_eq!(sniff_media(bytes), Some(kind));
            assert_eq!(MediaKind::of_extension(kind.extension()), Some(kind));
            assert!(kind.content_type().contains('/'));
        }
    }

    #[test]
    fn programs_documents_and_cut_off_heads_are_no_media() {
        for bytes in [
            &b""[..],
            b"<!doctype html><html>",
            b"<svg xmlns=\"http://www.w3.org/2000/svg\">",
            b"<?xml version=\"1.0\"?><svg>",
            b"%PDF-1.7",
            b"\x89PNG",
            b"RIFF\x10\0\0\0WAVE",
            b"\0\0\0\x20ftyp",
            b"\0\0\0\x20ftypheic",
            b"\0\0\0\x14ftypqt  ",
            b"\x1a\x45\xdf\xa3\x42\x82\x88matroska",
            b"{\"errors\":[]}",
        ] {
            assert_eq!(sniff_media(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
