//! Decoding, within limits and behind a wall: a decoder that panics has only found a broken image.

use std::{
    error::Error,
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

use image_webp::WebPDecoder;
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use super::{
    format::ImageFormat,
    image_error::ImageError,
    limits::ImageLimits,
    outline::Outline,
    pixels::{Orientation, Pixels},
};

/// The pixels of an image (of its first frame, if it moves) as they are in the file.
pub(crate) struct Decoded {
    pub(crate) outline: Outline,
    pub(crate) pixels: Pixels,
    /// The rotation that turns the pixels upright.
    pub(crate) orientation: Orientation,
}

/// Decodes the first frame.
pub(crate) fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<Decoded, ImageError> {
    let mut outline = Outline::read(bytes, limits)?;
    let cleaned = outline.cleaned.take();
    let bytes = cleaned.as_deref().unwrap_or(bytes);
    let (pixels, orientation) = walled(outline.format, || match outline.format {
        ImageFormat::Png => png(bytes, &outline, limits),
        ImageFormat::Jpeg => jpeg(bytes, &outline, limits),
        ImageFormat::Webp => webp(bytes, &outline, limits),
        ImageFormat::Gif => gif(bytes, &outline, limits),
    })?;
    Ok(Decoded { outline, pixels, orientation })
}

/// Decodes every frame behind the first, to know that each can be shown.
pub(crate) fn check_frames(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(), ImageError> {
    walled(outline.format, || match outline.format {
        ImageFormat::Gif => check_gif_frames(bytes, limits),
        ImageFormat::Webp => check_webp_frames(bytes),
        // One that moves is shown as one that does not: nothing else of it is ever decoded.
        ImageFormat::Png | ImageFormat::Jpeg => Ok(()),
    })
}

/// An error of a decoder, or an [`ImageError`] of the checks around it.
type Failure = Box<dyn Error>;

fn walled<T>(
    format: ImageFormat,
    decode: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, ImageError> {
    // Nothing is shared with what is inside: whatever state it leaves is dropped with it.
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(failure)) => Err(match failure.downcast::<ImageError>() {
            Ok(error) => *error,
            Err(error) => ImageError::broken(format, error.to_string()),
        }),
        Err(_) => Err(ImageError::broken(format, "the decoder gave up")),
    }
}

/// How many samples a pixel has, and how many bytes each of them has.
type Samples = (u64, u64);

/// Room for the pixels of an image, if its decoder found the size that its outline says.
fn room(
    outline: &Outline,
    limits: &ImageLimits,
    size: (u32, u32),
    (samples, bytes_per_sample): Samples,
) -> Result<Vec<u8>, ImageError> {
    if size != (outline.width, outline.height) {
        let reason = "its header and its pixels disagree on the size";
        return Err(ImageError::broken(outline.format, reason));
    }
    let pixels = u64::from(outline.width) * u64::from(outline.height);
    let needed = pixels * samples * bytes_per_sample;
    let mut bytes = needed + pixels * outline.extra_bytes_per_pixel;
    if samples < 3 || bytes_per_sample != 1 {
        bytes += pixels * 4; // the copy that has 8 bits for each of 3 or 4 channels
    }
    let max = limits.allocation_max;
    match usize::try_from(needed) {
        Ok(needed) if bytes <= max => Ok(vec![0; needed]),
        _ => Err(ImageError::Memory { bytes, max }),
    }
}

/// Pixels of 1 to 4 samples of 8 bits: gray or colours, and alpha if their number is even.
fn pixels(outline: &Outline, samples: u64, bytes: Vec<u8>) -> Pixels {
    let bytes = match samples {
        1 => bytes.iter().flat_map(|gray| [*gray; 3]).collect(),
        2 => {
            let pixels = bytes.as_chunks::<2>().0;
            pixels.iter().flat_map(|[gray, alpha]| [*gray, *gray, *gray, *alpha]).collect()
        }
        _ => bytes,
    };
    let Outline { width, height, .. } = *outline;
    Pixels { width, height, has_alpha: samples.is_multiple_of(2), bytes }
}

fn png(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(Pixels, Orientation), Failure> {
    let bytes_max = usize::try_from(limits.allocation_max).unwrap_or(usize::MAX);
    let limits_of_png = png::Limits { bytes: bytes_max };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits_of_png);
    // Palettes become colours, and fewer than 8 bits become 8.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info()?;
    let (color, depth) = reader.output_color_type();
    let samples = color.samples() as u64;
    let is_deep = depth == png::BitDepth::Sixteen;
    let bytes_per_sample = if is_deep { 2 } else { 1 };
    let mut bytes = room(outline, limits, reader.info().size(), (samples, bytes_per_sample))?;
    let exif = reader.info().exif_metadata.as_deref();
    let orientation = exif.map_or(Orientation::UPRIGHT, Orientation::of_exif);
    reader.next_frame(&mut bytes)?;
    if is_deep {
        let sample = |it: &[u8; 2]| ((u32::from(u16::from_be_bytes(*it)) + 128) / 257) as u8;
        bytes = bytes.as_chunks().0.iter().map(sample).collect();
    }
    Ok((pixels(outline, samples, bytes), orientation))
}

fn jpeg(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(Pixels, Orientation), Failure> {
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(limits.width_max as usize)
        .set_max_height(limits.height_max as usize);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers()?;
    let (width, height) = decoder.dimensions().ok_or("it has no header")?;
    let (samples, color) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (1, ColorSpace::Luma),
        _ => (3, ColorSpace::RGB),
    };
    let size = (u32::try_from(width)?, u32::try_from(height)?);
    let mut room = room(outline, limits, size, (samples, 1))?;
    let exif = decoder.exif();
    let orientation = exif.map_or(Orientation::UPRIGHT, |it| Orientation::of_exif(it));
    let options = options.jpeg_set_out_colorspace(color);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode_into(&mut room)?;
    Ok((pixels(outline, samples, room), orientation))
}

fn webp(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(Pixels, Orientation), Failure> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes))?;
    let samples = if decoder.has_alpha() { 4 } else { 3 };
    let mut room = room(outline, limits, decoder.dimensions(), (samples, 1))?;
    let exif = decoder.exif_metadata()?;
    let orientation = exif.map_or(Orientation::UPRIGHT, |it| Orientation::of_exif(&it));
    decoder.read_image(&mut room)?;
    Ok((pixels(outline, samples, room), orientation))
}

fn check_webp_frames(bytes: &[u8]) -> Result<(), Failure> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes))?;
    let mut room = vec![0; decoder.output_buffer_size().ok_or("it is too large")?];
    for _ in 0..decoder.num_frames() {
        match decoder.read_frame(&mut room) {
            Ok(_) => {}
            Err(image_webp::DecodingError::NoMoreFrames) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn gif_decoder(bytes: &[u8]) -> Result<gif::Decoder<&[u8]>, gif::DecodingError> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    options.read_info(bytes)
}

fn gif(
    bytes: &[u8],
    outline: &Outline,
    limits: &ImageLimits,
) -> Result<(Pixels, Orientation), Failure> {
    let mut decoder = gif_decoder(bytes)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let size = (u32::from(decoder.width()), u32::from(decoder.height()));
    let mut canvas = room(outline, limits, size, (4, 1))?;
    let frame = decoder.next_frame_info()?.ok_or("it has no pixels")?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (wide, high) = (usize::from(frame.width), usize::from(frame.height));
    let line = 4 * width;
    if left == 0 && wide == width && top + high <= height {
        decoder.read_into_buffer(&mut canvas[line * top..line * (top + high)])?;
    } else {
        // The frame leaves a part of the canvas clear, or reaches beyond it.
        let mut frame = frame_room(&decoder, limits)?;
        decoder.read_into_buffer(&mut frame)?;
        let shown = 4 * wide.min(width.saturating_sub(left));
        for (from, to) in frame.chunks_exact(4 * wide).zip(canvas.chunks_exact_mut(line).skip(top))
        {
            if 0 < shown {
                to[4 * left..][..shown].copy_from_slice(&from[..shown]);
            }
        }
    }
    Ok((pixels(outline, 4, canvas), Orientation::UPRIGHT))
}

fn check_gif_frames(bytes: &[u8], limits: &ImageLimits) -> Result<(), Failure> {
    let mut decoder = gif_decoder(bytes)?;
    while decoder.next_frame_info()?.is_some() {
        let mut frame = frame_room(&decoder, limits)?;
        decoder.read_into_buffer(&mut frame)?;
    }
    Ok(())
}

/// Room for the pixels of a frame.
fn frame_room(decoder: &gif::Decoder<&[u8]>, limits: &ImageLimits) -> Result<Vec<u8>, ImageError> {
    let (bytes, max) = (decoder.buffer_size() as u64, limits.allocation_max);
    if max < bytes {
        return Err(ImageError::Memory { bytes, max });
    }
    Ok(vec![0; decoder.buffer_size()])
}

#[cfg(test)]
mod tests;
