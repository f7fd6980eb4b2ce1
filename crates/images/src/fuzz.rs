//! Fuzz targets: images of strangers.

use crate::{
    ImageFormat, ImageLimits, decode_upright, image::Inspected, inspect, outline::Outline,
    thumbnail,
};

/// The longest edge of a small copy.
const EDGE: u32 = 16;

const LIMITS: ImageLimits = ImageLimits {
    bytes_max: 64 << 10,
    width_max: 64,
    height_max: 64,
    pixels_max: 2_048,
    frames_max: 4,
    animation_pixels_max: 4_096,
    scans_max: 4,
    allocation_max: 1 << 20,
};

/// The bytes of an image: the outline keeps the limits, and the decoder agrees with it.
pub fn image(data: &[u8]) {
    let outline = Outline::read(data, &LIMITS);
    if let Ok(outline) = &outline {
        assert_eq!(ImageFormat::sniff(data), Ok(outline.format));
        assert!(data.len() <= LIMITS.bytes_max && outline.frames <= LIMITS.frames_max);
        assert_size(outline.width, outline.height);
    }
    let Ok(Inspected { format, width, height, frames, .. }) = inspect(data, &LIMITS) else {
        return;
    };
    let outline = outline.expect("nothing is decoded without an outline");
    assert_eq!((format, frames), (outline.format, outline.frames));
    assert_size(width, height);
    let upright = decode_upright(data, &LIMITS).expect("it was decoded before");
    assert_eq!((upright.width, upright.height), (width, height));
    assert_eq!(upright.rgba.len() as u64, 4 * u64::from(width) * u64::from(height));
    let small = thumbnail(data, &LIMITS, EDGE).expect("it was decoded before");
    let small = inspect(&small, &LIMITS).expect("a copy is an image");
    assert!(small.width <= EDGE && small.height <= EDGE && small.frames == 1);
}

fn assert_size(width: u32, height: u32) {
    assert!((1..=LIMITS.width_max).contains(&width), "{width}");
    assert!((1..=LIMITS.height_max).contains(&height), "{height}");
    assert!(u64::from(width) * u64::from(height) <= LIMITS.pixels_max);
}

#[cfg(test)]
mod tests {
    #[test]
    fn images_of_strangers_keep_the_limits() {
        steadfast_mutations::run("image", super::image, 1_500);
    }
}
