//! The width and height of an output, by the header of its file.

use super::{
    MediaKind,
    boxes::{Boxes, HEADER_BYTES, array, be32, mp4},
    webm::webm,
};

/// Finds width and height while a file passes by, wherever its header is.
#[derive(Debug)]
pub struct MediaSize {
    kind: MediaKind,
    first: Vec<u8>,
    boxes: Boxes,
}

impl MediaSize {
    /// For a file of this kind.
    pub fn new(kind: MediaKind) -> Self {
        Self { kind, first: Vec::new(), boxes: Boxes::default() }
    }

    /// The next bytes of the file.
    pub fn add(&mut self, bytes: &[u8]) {
        match self.kind {
            MediaKind::Mp4 => self.boxes.add(bytes),
            MediaKind::Png
            | MediaKind::Jpeg
            | MediaKind::Webp
            | MediaKind::Gif
            | MediaKind::Webm => {
                let room = HEADER_BYTES - self.first.len();
                self.first.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
    }

    /// Width and height, as the file has them. `None` if it does not say.
    pub fn find(&self) -> Option<(u32, u32)> {
        let first = &self.first;
        let (width, height) = match self.kind {
            MediaKind::Png => (be32(first, 16)?, be32(first, 20)?),
            MediaKind::Gif => (le16(first, 6)?, le16(first, 8)?),
            MediaKind::Jpeg => jpeg(first)?,
            MediaKind::Webp => webp(first)?,
            MediaKind::Mp4 => mp4(self.boxes.moov())?,
            MediaKind::Webm => webm(first)?,
        };
        (0 < width && 0 < height).then_some((width, height))
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u16::from_be_bytes).map(u32::from)
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u16::from_le_bytes).map(u32::from)
}

fn le24(bytes: &[u8], at: usize) -> Option<u32> {
    let [a, b, c] = array(bytes, at)?;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

/// Goes from marker to marker until the one of the frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc4 | 0xc8 | 0xcc => at += 2 + usize::try_from(be16(bytes, at + 2)?).ok()?,
            0xc0..=0xcf => return Some((be16(bytes, at + 7)?, be16(bytes, at + 5)?)),
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::try_from(be16(bytes, at + 2)?).ok()?,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((le24(bytes, 24)? + 1, le24(bytes, 27)? + 1)),
        b"VP8L" => {
            let bits = u32::from_le_bytes(array(bytes, 21)?);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((le16(bytes, 26)? & 0x3fff, le16(bytes, 28)? & 0x3fff)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use image::{DynamicImage, ImageFormat};

    use super::*;

    /// The size of a file that comes in chunks of so many bytes.
    pub(in super::super) fn size(kind: MediaKind, file: &[u8], chunk: usize) -> Option<(u32, u32)> {
        let mut size = MediaSize::new(kind);
        file.chunks(chunk).for_each(|it| size.add(it));
        size.find()
    }

    fn media_size(kind: MediaKind, file: &[u8]) -> Option<(u32, u32)> {
        size(kind, file, 64 << 10)
    }

    #[test]
    fn the_size_of_every_format_is_that_of_its_pixels() {
        for (format, kind) in [
            (ImageFormat::Png, MediaKind::Png),
            (ImageFormat::Jpeg, MediaKind::Jpeg),
            (ImageFormat::Gif, MediaKind::Gif),
            (ImageFormat::WebP, MediaKind::Webp),
        ] {
            let mut bytes = std::io::Cursor::new(Vec::new());
            let image = DynamicImage::new_rgb8(300, 20);
            let image = if kind == MediaKind::Webp { image.to_rgba8().into() } else { image };
            if image.write_to(&mut bytes, format).is_err() {
                // The encoder is not built in.
                assert_eq!(kind, MediaKind::Webp);
                continue;
            }
            let bytes = bytes.into_inner();
            assert_eq!(media_size(kind, &bytes), Some((300, 20)), "{kind:?}");
            assert_eq!(media_size(kind, &bytes[..8]), None, "{kind:?}");
        }
    }

    #[test]
    fn heads_by_hand() {
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x2b\x01\0\x13\0\0";
        assert_eq!(media_size(MediaKind::Webp, extended), Some((300, 20)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x2c\x41\x14\x40";
        assert_eq!(media_size(MediaKind::Webp, lossy), Some((300, 20)));
        // A table comes before the frame, and a fill byte.
        let jpeg = b"\xff\xd8\xff\xc4\0\x04ab\xff\xff\xc0\0\x0b\x08\0\x14\x01\x2c\x03\0\0";
        assert_eq!(media_size(MediaKind::Jpeg, jpeg), Some((300, 20)));
    }
}
