//! Operations on an image: inspect it, turn it upright, make it small.

use image::{
    DynamicImage, ImageEncoder,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
    metadata::Orientation,
};

use super::{
    decode::{Decoded, check_frames, decode},
    format::ImageFormat,
    image_error::ImageError,
    limits::ImageLimits,
    scale::{Part, scale},
};

/// Small, and nobody sees the difference at the size of a card.
const THUMBNAIL_QUALITY: u8 = 82;

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
    let Decoded { outline, orientation, image } = decode(bytes, limits)?;
    drop(image);
    if 1 < outline.frames {
        check_frames(bytes, &outline, limits)?;
    }
    let (width, height) = match turns(orientation) {
        true => (outline.height, outline.width),
        false => (outline.width, outline.height),
    };
    let is_turned = orientation != Orientation::NoTransforms;
    let (format, frames) = (outline.format, outline.frames);
    let content_type = format.content_type();
    Ok(Inspected { format, content_type, width, height, frames, is_turned })
}

/// Decodes an image (its first frame, if it moves) and turns it upright.
pub fn decode_upright(bytes: &[u8], limits: &ImageLimits) -> Result<Upright, ImageError> {
    let Decoded { mut image, orientation, .. } = decode(bytes, limits)?;
    image.apply_orientation(orientation);
    let image = image.into_rgba8();
    let (width, height) = image.dimensions();
    Ok(Upright { width, height, rgba: image.into_raw() })
}

/// A small copy, upright, with no edge longer than `edge`: a JPEG, or a PNG if one can see through
/// it. An image that is small already keeps its size.
pub fn thumbnail(bytes: &[u8], limits: &ImageLimits, edge: u32) -> Result<Vec<u8>, ImageError> {
    let Decoded { outline, image, orientation } = decode(bytes, limits)?;
    let format = outline.format;
    let (width, height) = fit(image.width(), image.height(), edge.max(1));
    let part = Part::whole(&image);
    let image = scale(image, part, width, height);
    let mut image = image.ok_or_else(|| ImageError::broken(format, "it cannot be scaled"))?;
    image.apply_orientation(orientation);
    encode(&image).map_err(|error| ImageError::broken(format, error.to_string()))
}

fn encode(image: &DynamicImage) -> Result<Vec<u8>, image::ImageError> {
    let mut bytes = Vec::new();
    let is_clear = |it: &image::RgbaImage| it.pixels().any(|pixel| pixel.0[3] < u8::MAX);
    match image.as_rgba8() {
        Some(clear) if is_clear(clear) => {
            let (width, height) = clear.dimensions();
            let encoder = PngEncoder::new(&mut bytes);
            encoder.write_image(clear, width, height, image::ExtendedColorType::Rgba8)?;
        }
        _ => {
            let rgb = image.to_rgb8();
            let encoder = JpegEncoder::new_with_quality(&mut bytes, THUMBNAIL_QUALITY);
            let (width, height) = rgb.dimensions();
            encoder.write_image(&rgb, width, height, image::ExtendedColorType::Rgb8)?;
        }
    }
    Ok(bytes)
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

/// Whether width and height change places.
fn turns(orientation: Orientation) -> bool {
    match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => true,
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => false,
    }
}

#[cfg(test)]
mod tests;
