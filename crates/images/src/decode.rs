//! Decoding, within limits and behind a wall: a decoder that panics has only found a broken image.

use std::{
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

use image::{
    AnimationDecoder, ColorType, DynamicImage, ImageDecoder, Limits,
    codecs::{gif::GifDecoder, jpeg::JpegDecoder, png::PngDecoder, webp::WebPDecoder},
    metadata::Orientation,
};

use super::{format::ImageFormat, image_error::ImageError, limits::ImageLimits, outline::Outline};

/// The pixels of an image (of its first frame, if it moves) as they are in the file.
pub(crate) struct Decoded {
    pub(crate) outline: Outline,
    /// With 8 bits for each of 3 or 4 channels.
    pub(crate) image: DynamicImage,
    /// The rotation that turns the pixels upright.
    pub(crate) orientation: Orientation,
}

/// Decodes the first frame.
pub(crate) fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<Decoded, ImageError> {
    let mut outline = Outline::read(bytes, limits)?;
    let cleaned = outline.cleaned.take();
    let bytes = cleaned.as_deref().unwrap_or(bytes);
    let (image, orientation) = walled(outline.format, || match outline.format {
        ImageFormat::Png => {
            read(PngDecoder::with_limits(Cursor::new(bytes), allowed(limits))?, &outline, limits)
        }
        ImageFormat::Jpeg => read(JpegDecoder::new(Cursor::new(bytes))?, &outline, limits),
        ImageFormat::Webp => read(WebPDecoder::new(Cursor::new(bytes))?, &outline, limits),
        ImageFormat::Gif => read(GifDecoder::new(Cursor::new(bytes))?, &outline, limits),
    })?;
    Ok(Decoded { outline, image, orientation })
}

/// Decodes every frame behind the first, to know that each can be shown.
pub(crate) fn check_frames(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(), ImageError> {
    walled(outline.format, || {
        let frames = match outline.format {
            ImageFormat::Gif => {
                let mut decoder = GifDecoder::new(Cursor::new(bytes))?;
                decoder.set_limits(allowed(limits))?;
                decoder.into_frames()
            }
            ImageFormat::Webp => WebPDecoder::new(Cursor::new(bytes))?.into_frames(),
            // One that moves is shown as one that does not: nothing else of it is ever decoded.
            ImageFormat::Png | ImageFormat::Jpeg => return Ok(()),
        };
        for frame in frames {
            frame?;
        }
        Ok(())
    })
}

/// An error of a decoder, or of our checks around it.
enum Trouble {
    Decoder(image::ImageError),
    Refused(ImageError),
}

impl From<image::ImageError> for Trouble {
    fn from(error: image::ImageError) -> Self {
        Trouble::Decoder(error)
    }
}

fn walled<T>(
    format: ImageFormat,
    decode: impl FnOnce() -> Result<T, Trouble>,
) -> Result<T, ImageError> {
    // Nothing is shared with what is inside: whatever state it leaves is dropped with it.
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Trouble::Refused(error))) => Err(error),
        Ok(Err(Trouble::Decoder(error))) => Err(ImageError::broken(format, error.to_string())),
        Err(_) => Err(ImageError::broken(format, "the decoder gave up")),
    }
}

fn read(
    mut decoder: impl ImageDecoder,
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(DynamicImage, Orientation), Trouble> {
    if decoder.dimensions() != (outline.width, outline.height) {
        let reason = "its header and its pixels disagree on the size";
        return Err(Trouble::Refused(ImageError::broken(outline.format, reason)));
    }
    let pixels = u64::from(outline.width) * u64::from(outline.height);
    let mut bytes = decoder.total_bytes() + pixels * outline.extra_bytes_per_pixel;
    if !matches!(decoder.color_type(), ColorType::Rgb8 | ColorType::Rgba8) {
        bytes += pixels * 4; // the copy that has 8 bits for each channel
    }
    if limits.allocation_max < bytes {
        let max = limits.allocation_max;
        return Err(Trouble::Refused(ImageError::Memory { bytes, max }));
    }
    decoder.set_limits(allowed(limits))?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    if image.as_rgb8().is_none() && image.as_rgba8().is_none() {
        image = match image.color().has_alpha() {
            true => DynamicImage::ImageRgba8(image.into_rgba8()),
            false => DynamicImage::ImageRgb8(image.into_rgb8()),
        };
    }
    Ok((image, orientation))
}

/// The limits as the decoders know them.
fn allowed(limits: &ImageLimits) -> Limits {
    let mut allowed = Limits::no_limits();
    allowed.max_image_width = Some(limits.width_max);
    allowed.max_image_height = Some(limits.height_max);
    allowed.max_alloc = Some(limits.allocation_max);
    allowed
}
