//! The square in the middle of an image, as networks want it.

use image::{DynamicImage, RgbImage, metadata::Orientation};

use super::{
    decode::{Decoded, decode},
    image_error::ImageError,
    limits::ImageLimits,
    scale::{Part, scale},
};

/// Scales an image so that its short side has this length, and takes a square of `edge` pixels from
/// its middle: upright, transparent parts in white.
pub fn middle_square(
    bytes: &[u8],
    limits: &ImageLimits,
    short_side: u32,
    edge: u32,
) -> Result<RgbImage, ImageError> {
    let Decoded { outline, image, orientation } = decode(bytes, limits)?;
    let square = square(image, orientation, short_side, edge);
    square.ok_or_else(|| ImageError::broken(outline.format, "it has no middle"))
}

fn square(
    image: DynamicImage,
    orientation: Orientation,
    short_side: u32,
    edge: u32,
) -> Option<RgbImage> {
    let (part, width, height) = middle(image.width(), image.height(), short_side);
    // It is made small before it is turned: turning copies it.
    let mut image = scale(image, part, width, height)?;
    image.apply_orientation(orientation);
    let left = image.width().checked_sub(edge)? / 2;
    let top = image.height().checked_sub(edge)? / 2;
    Some(over_white(&image.crop_imm(left, top, edge, edge)))
}

/// The part to scale, and its size. The whole image, unless it is so long that most of it would
/// only be cut off again: a strip of 8,000 x 1 pixels would grow to two million x 256.
fn middle(width: u32, height: u32, short_side: u32) -> (Part, u32, u32) {
    let short = width.min(height);
    let used = |len: u32| len.min(short.saturating_mul(4));
    let scaled = |len: u32| {
        let scaled = u64::from(len) * u64::from(short_side) / u64::from(short.max(1));
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    let (used_width, used_height) = (used(width), used(height));
    let part = Part {
        left: f64::from((width - used_width) / 2),
        top: f64::from((height - used_height) / 2),
        width: f64::from(used_width),
        height: f64::from(used_height),
    };
    (part, scaled(used_width), scaled(used_height))
}

fn over_white(image: &DynamicImage) -> RgbImage {
    let Some(clear) = image.as_rgba8() else { return image.to_rgb8() };
    let mut solid = RgbImage::new(clear.width(), clear.height());
    for (from, to) in clear.pixels().zip(solid.pixels_mut()) {
        let alpha = u32::from(from.0[3]);
        for (color, solid) in from.0.iter().zip(&mut to.0) {
            let mixed = (u32::from(*color) * alpha + 255 * (255 - alpha) + 127) / 255;
            *solid = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    solid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_does_not_grow_to_millions_of_pixels() {
        for (width, height) in [(8_000, 1), (1, 8_000), (8_192, 2)] {
            let (part, to_width, to_height) = middle(width, height, 256);
            assert!(to_width <= 1_024 && to_height <= 1_024);
            assert!(part.left + part.width <= f64::from(width));
            let strip = RgbImage::from_pixel(width, height, image::Rgb([9, 9, 9])).into();
            let square = square(strip, Orientation::NoTransforms, 256, 224).unwrap();
            assert_eq!(square.dimensions(), (224, 224));
        }
    }

    #[test]
    fn a_turned_photo_gives_the_pixels_of_the_upright_one() {
        let upright = DynamicImage::ImageRgb8(RgbImage::from_fn(60, 40, |x, y| {
            image::Rgb([u8::try_from(x * 4).unwrap(), u8::try_from(y * 5).unwrap(), 0])
        }));
        let expected = square(upright.clone(), Orientation::NoTransforms, 32, 32).unwrap();
        let found = square(upright.rotate270(), Orientation::Rotate90, 32, 32).unwrap();
        let far = expected.iter().zip(found.iter()).any(|(a, b)| a.abs_diff(*b) > 1);
        assert!(!far);
    }
}
