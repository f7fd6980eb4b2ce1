//! Operations on an image: inspect it, turn it upright, make it small.

use super::{
    decode::{Decoded, check_frames, decode},
    encode::encode,
    format::ImageFormat,
    image_error::ImageError,
    limits::ImageLimits,
    scale::{Part, scale},
};

/// The facts about an image. Each of its frames has been decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Its format, from its bytes.
    pub format: ImageFormat,
    /// Its content type.
    pub content_type: &'static str,
    /// Pixels from left to right, when it is upright.
    pub width: u32,
    /// Pixels from top to bottom, when it is upright.
    pub height: u32,
    /// Frames, 1 if it does not move.
    pub frames: u32,
    /// Whether its pixels have to be turned or mirrored for that.
    pub is_turned: bool,
}

/// The pixels of an image, upright.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upright {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// Four bytes for each pixel: red, green, blue, alpha.
    pub rgba: Vec<u8>,
}

/// Looks at an image and decodes all of it. It takes as long as decoding does: call it where
/// threads may be kept busy.
pub fn inspect(bytes: &[u8], limits: &ImageLimits) -> Result<Inspected, ImageError> {
    let Decoded { outline, orientation, pixels } = decode(bytes, limits)?;
    drop(pixels);
    if 1 < outline.frames {
        check_frames(bytes, &outline, limits)?;
    }
    let (width, height) = orientation.size(outline.width, outline.height);
    let is_turned = orientation.is_turned();
    let (format, frames) = (outline.format, outline.frames);
    let content_type = format.content_type();
    Ok(Inspected { format, content_type, width, height, frames, is_turned })
}

/// Decodes an image (its first frame, if it moves) and turns it upright.
pub fn decode_upright(bytes: &[u8], limits: &ImageLimits) -> Result<Upright, ImageError> {
    let Decoded { pixels, orientation, .. } = decode(bytes, limits)?;
    let pixels = pixels.upright(orientation);
    Ok(Upright { width: pixels.width, height: pixels.height, rgba: pixels.into_rgba() })
}

/// A small copy, upright, with no edge longer than `edge`: a JPEG, or a PNG if one can see through
/// it. An image that is small already keeps its size.
pub fn thumbnail(bytes: &[u8], limits: &ImageLimits, edge: u32) -> Result<Vec<u8>, ImageError> {
    let Decoded { outline, pixels, orientation } = decode(bytes, limits)?;
    let format = outline.format;
    let (width, height) = fit(pixels.width, pixels.height, edge.max(1));
    let part = Part::whole(&pixels);
    let small = scale(pixels, part, width, height);
    let small = small.ok_or_else(|| ImageError::broken(format, "it cannot be scaled"))?;
    let small = small.upright(orientation);
    encode(small).map_err(|error| ImageError::broken(format, error.to_string()))
}

/// The size that fits into a square, never larger than it is and never nothing.
fn fit(width: u32, height: u32, edge: u32) -> (u32, u32) {
    let long = width.max(height);
    if long <= edge {
        return (width, height);
    }
    let side = |len: u32| {
        let scaled = (u64::from(len) * u64::from(edge) + u64::from(long) / 2) / u64::from(long);
        u32::try_from(scaled).unwrap_or(edge).max(1)
    };
    (side(width), side(height))
}

#[cfg(test)]
mod tests;
