//! The chunks of a WebP.

use super::{Frames, Outline, bytes::Bytes, check_size};
use crate::{format::ImageFormat, image_error::ImageError, limits::ImageLimits};

const FORMAT: ImageFormat = ImageFormat::Webp;

/// The flag of an animation in the extended header.
const ANIMATED: u8 = 0x02;

pub(super) fn outline(bytes: &[u8], limits: &ImageLimits) -> Result<Outline, ImageError> {
    let mut file = Bytes::new(FORMAT, bytes);
    file.take(4)?;
    let len = usize::try_from(file.u32_le()?).unwrap_or(usize::MAX);
    let mut chunks = Bytes::new(FORMAT, file.take(len)?);
    chunks.take(4)?;

    let (kind, body) = next_chunk(&mut chunks)?;
    let (width, height) = size(kind, body)?;
    check_size(FORMAT, width, height, limits)?;
    let still = Outline::still(FORMAT, width, height);
    if &kind != b"VP8X" {
        return Ok(still);
    }
    let is_animated = body.first().is_some_and(|flags| flags & ANIMATED != 0);
    if !is_animated {
        check_pixels(chunks, width, height)?;
        return Ok(still);
    }

    let mut frames = Frames::new(FORMAT, width, height, limits)?;
    while !chunks.is_at_end() {
        let (kind, body) = next_chunk(&mut chunks)?;
        if &kind == b"ANMF" {
            let mut frame = Bytes::new(FORMAT, body);
            frame.take(6)?;
            let (width, height) = (frame.u24_le()? + 1, frame.u24_le()? + 1);
            frames.add(FORMAT, width, height)?;
            frame.take(4)?;
            check_pixels(frame, width, height)?;
        }
    }
    if frames.count == 0 {
        return Err(ImageError::broken(FORMAT, "it has no pixels"));
    }
    // The canvas, a frame, and the frame on the canvas.
    Ok(Outline { frames: frames.count, extra_bytes_per_pixel: 8, ..still })
}

/// Refuses chunks without pixels, or with another size than was announced: the decoder believes the
/// one that is with the pixels, and finds out behind them.
fn check_pixels(mut chunks: Bytes, width: u32, height: u32) -> Result<(), ImageError> {
    let mut has_pixels = false;
    while !chunks.is_at_end() {
        let (kind, body) = next_chunk(&mut chunks)?;
        if matches!(&kind, b"VP8 " | b"VP8L") {
            if size(kind, body)? != (width, height) {
                return Err(ImageError::broken(FORMAT, "its header and its pixels disagree"));
            }
            has_pixels = true;
        }
    }
    match has_pixels {
        true => Ok(()),
        false => Err(ImageError::broken(FORMAT, "it has no pixels")),
    }
}

fn next_chunk<'a>(chunks: &mut Bytes<'a>) -> Result<([u8; 4], &'a [u8]), ImageError> {
    let kind = chunks.array()?;
    let len = usize::try_from(chunks.u32_le()?).unwrap_or(usize::MAX);
    let body = chunks.take(len)?;
    // Chunks begin at even places; some encoders leave the last gap out.
    if len % 2 == 1 && !chunks.is_at_end() {
        chunks.take(1)?;
    }
    Ok((kind, body))
}

/// The size, which the first chunk says in one of three ways.
fn size(kind: [u8; 4], body: &[u8]) -> Result<(u32, u32), ImageError> {
    let mut body = Bytes::new(FORMAT, body);
    match &kind {
        b"VP8 " => {
            body.take(6)?;
            Ok((u32::from(body.u16_le()? & 0x3fff), u32::from(body.u16_le()? & 0x3fff)))
        }
        b"VP8L" => {
            body.take(1)?;
            let both = body.u32_le()?;
            Ok(((both & 0x3fff) + 1, ((both >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => {
            body.take(4)?;
            Ok((body.u24_le()? + 1, body.u24_le()? + 1))
        }
        _ => Err(ImageError::broken(FORMAT, "it does not begin with its header")),
    }
}
