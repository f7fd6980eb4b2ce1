//! The chunks of a PNG.

use super::{Frames, Outline, bytes::Bytes, check_size};
use crate::{format::ImageFormat, image_error::ImageError, limits::ImageLimits};

const FORMAT: ImageFormat = ImageFormat::Png;

/// The chunks with the pixels and the rotation. Texts and profiles are packed and can grow
/// to a gigabyte, and none of them changes a pixel: the decoder never sees them.
const KEPT: [&[u8; 4]; 6] = [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"eXIf", b"IEND"];

pub(super) fn outline(bytes: &[u8], limits: &ImageLimits) -> Result<Outline, ImageError> {
    let mut chunks = Bytes::new(FORMAT, bytes);
    let mut cleaned = chunks.take(8)?.to_vec();
    let mut size = None;
    let mut has_pixels = false;
    let mut frames: Option<Frames> = None;
    loop {
        let len = chunks.u32_be()?;
        let kind: [u8; 4] = chunks.array()?;
        let body = chunks.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        let sum = chunks.take(4)?;
        if size.is_none() {
            let (width, height) = header(kind, body)?;
            check_size(FORMAT, width, height, limits)?;
            size = Some((width, height));
        }
        match &kind {
            b"IDAT" => has_pixels = true,
            b"fcTL" => {
                let (width, height) = size.unwrap_or_default();
                let frames = match &mut frames {
                    Some(frames) => frames,
                    none => none.insert(Frames::new(FORMAT, width, height, limits)?),
                };
                frames.add(FORMAT, width, height)?;
            }
            _ => {}
        }
        if KEPT.contains(&&kind) {
            cleaned.extend_from_slice(&len.to_be_bytes());
            cleaned.extend_from_slice(&kind);
            cleaned.extend_from_slice(body);
            cleaned.extend_from_slice(sum);
        }
        if &kind == b"IEND" {
            break;
        }
    }
    if !has_pixels {
        return Err(ImageError::broken(FORMAT, "it has no pixels"));
    }
    let (width, height) = size.unwrap_or_default();
    let frames = frames.map_or(1, |it| it.count);
    Ok(Outline { frames, cleaned: Some(cleaned), ..Outline::still(FORMAT, width, height) })
}

/// The size, which is in the first chunk.
fn header(kind: [u8; 4], body: &[u8]) -> Result<(u32, u32), ImageError> {
    if &kind != b"IHDR" {
        return Err(ImageError::broken(FORMAT, "it does not begin with its header"));
    }
    let mut body = Bytes::new(FORMAT, body);
    Ok((body.u32_be()?, body.u32_be()?))
}
