//! The square in the middle of an image, as networks want it.

use super::{
    decode::{Decoded, decode},
    image_error::ImageError,
    limits::ImageLimits,
    pixels::{Orientation, Pixels},
    scale::{Part, scale},
};

/// Scales an image so that its short side has this length, and takes a square of `edge` pixels from
/// its middle: upright, transparent parts in white. Each pixel has three bytes: red, green, blue.
pub fn middle_square(
    bytes: &[u8],
    limits: &ImageLimits,
    short_side: u32,
    edge: u32,
) -> Result<Vec<[u8; 3]>, ImageError> {
    let Decoded { outline, pixels, orientation } = decode(bytes, limits)?;
    let square = square(pixels, orientation, short_side, edge);
    square.ok_or_else(|| ImageError::broken(outline.format, "it has no middle"))
}

fn square(
    pixels: Pixels,
    orientation: Orientation,
    short_side: u32,
    edge: u32,
) -> Option<Vec<[u8; 3]>> {
    let (part, width, height) = middle(pixels.width, pixels.height, short_side);
    // It is made small before it is turned: turning copies it.
    let pixels = scale(pixels, part, width, height)?.upright(orientation);
    let left = pixels.width.checked_sub(edge)? as usize / 2;
    let top = pixels.height.checked_sub(edge)? as usize / 2;
    let (width, edge) = (pixels.width as usize, edge as usize);
    let pixels: Vec<[u8; 3]> = match pixels.has_alpha {
        true => pixels.bytes.as_chunks().0.iter().map(over_white).collect(),
        false => pixels.bytes.as_chunks().0.to_vec(),
    };
    let rows = pixels.chunks_exact(width).skip(top).take(edge);
    Some(rows.flat_map(|row| row[left..left + edge].iter().copied()).collect())
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

fn over_white([red, green, blue, alpha]: &[u8; 4]) -> [u8; 3] {
    [red, green, blue].map(|color| {
        let alpha = u32::from(*alpha);
        let mixed = (u32::from(*color) * alpha + 255 * (255 - alpha) + 127) / 255;
        u8::try_from(mixed).unwrap_or(u8::MAX)
    })
}

#[cfg(test)]
mod tests {
    use image::RgbImage;

    use super::*;

    #[test]
    fn a_strip_does_not_grow_to_millions_of_pixels() {
        for (width, height) in [(8_000, 1), (1, 8_000), (8_192, 2)] {
            let (part, to_width, to_height) = middle(width, height, 256);
            assert!(to_width <= 1_024 && to_height <= 1_024);
            assert!(part.left + part.width <= f64::from(width));
            let bytes = vec![9; (width * height * 3) as usize];
            let strip = Pixels { width, height, has_alpha: false, bytes };
            let square = square(strip, Orientation::UPRIGHT, 256, 224).unwrap();
            assert_eq!(square, vec![[9; 3]; 224 * 224]);
        }
    }

    #[test]
    fn a_turned_photo_gives_the_pixels_of_the_upright_one() {
        let upright = RgbImage::from_fn(60, 40, |x, y| {
            image::Rgb([u8::try_from(x * 4).unwrap(), u8::try_from(y * 5).unwrap(), 0])
        });
        let pixels = |image: RgbImage| {
            let (width, height) = image.dimensions();
            Pixels { width, height, has_alpha: false, bytes: image.into_raw() }
        };
        let turned = image::imageops::rotate270(&upright);
        let expected = square(pixels(upright), Orientation::UPRIGHT, 32, 32).unwrap();
        let found = square(pixels(turned), Orientation::CLOCKWISE, 32, 32).unwrap();
        let bytes = expected.as_flattened().iter().zip(found.as_flattened());
        let far = bytes.into_iter().any(|(a, b)| a.abs_diff(*b) > 1);
        assert!(!far);
    }
}
