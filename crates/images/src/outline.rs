//! The outline of an image: what its chunks, markers or blocks say before anything is decoded.
//!
//! Decoders forgive a lot. The one for JPEG paints a missing half grey, the one for GIF ends
//! quietly at the end of the bytes, and some allocate for what a header claims. The outline is read
//! first and costs one pass over the bytes, so a bomb or a cut-off file never reaches a decoder.

mod bytes;
mod gif;
mod jpeg;
mod png;
mod webp;

use super::{format::ImageFormat, image_error::ImageError, limits::ImageLimits};

impl ImageFormat {
    /// The format that the first bytes claim. A name or a content type that somebody sent is never
    /// asked.
    pub fn sniff(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Ok(ImageFormat::Png)
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Ok(ImageFormat::Jpeg)
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            Ok(ImageFormat::Gif)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Ok(ImageFormat::Webp)
        } else {
            Err(ImageError::Format)
        }
    }
}

/// The outline of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) format: ImageFormat,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) frames: u32,
    /// Bytes that the decoder needs for each pixel, beside those of the image itself.
    pub(crate) extra_bytes_per_pixel: u64,
    /// Bytes for the decoder, if not those that came.
    pub(crate) cleaned: Option<Vec<u8>>,
}

impl Outline {
    /// Reads the outline; refuses what is cut off or asks for too much.
    pub(crate) fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Self, ImageError> {
        if bytes.is_empty() {
            return Err(ImageError::Empty);
        }
        if limits.bytes_max < bytes.len() {
            return Err(ImageError::TooLarge { bytes: bytes.len(), max: limits.bytes_max });
        }
        match ImageFormat::sniff(bytes)? {
            ImageFormat::Png => png::outline(bytes, limits),
            ImageFormat::Jpeg => jpeg::outline(bytes, limits),
            ImageFormat::Webp => webp::outline(bytes, limits),
            ImageFormat::Gif => gif::outline(bytes, limits),
        }
    }

    fn still(format: ImageFormat, width: u32, height: u32) -> Self {
        Outline { format, width, height, frames: 1, extra_bytes_per_pixel: 0, cleaned: None }
    }
}

/// Adds up the frames of an animation, and says when there are too many.
struct Frames<'a> {
    limits: &'a ImageLimits,
    canvas: u64,
    count: u32,
    pixels: u64,
}

impl<'a> Frames<'a> {
    /// For frames on a canvas, which is as large as the image.
    fn new(
        format: ImageFormat,
        width: u32,
        height: u32,
        limits: &'a ImageLimits,
    ) -> Result<Self, ImageError> {
        check_size(format, width, height, limits)?;
        Ok(Self { limits, canvas: u64::from(width) * u64::from(height), count: 0, pixels: 0 })
    }

    /// One more. It costs its own pixels, or those of the canvas it is painted on.
    fn add(&mut self, format: ImageFormat, width: u32, height: u32) -> Result<(), ImageError> {
        check_size(format, width, height, self.limits)?;
        self.count += 1;
        if self.limits.frames_max < self.count {
            return Err(ImageError::Frames { max: self.limits.frames_max });
        }
        self.pixels += self.canvas.max(u64::from(width) * u64::from(height));
        let max = self.limits.animation_pixels_max;
        if 1 < self.count && max < self.pixels {
            return Err(ImageError::Pixels { pixels: self.pixels, max });
        }
        Ok(())
    }
}

/// Refuses a size that is nothing or too much.
fn check_size(
    format: ImageFormat,
    width: u32,
    height: u32,
    limits: &ImageLimits,
) -> Result<(), ImageError> {
    if width == 0 || height == 0 {
        return Err(ImageError::broken(format, "it has no pixels"));
    }
    let ImageLimits { width_max, height_max, pixels_max, .. } = *limits;
    if width_max < width || height_max < height {
        return Err(ImageError::Dimensions { width, height, width_max, height_max });
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels_max < pixels {
        return Err(ImageError::Pixels { pixels, max: pixels_max });
    }
    Ok(())
}
