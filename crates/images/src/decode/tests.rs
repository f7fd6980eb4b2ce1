use std::borrow::Cow;

use super::*;

const FILES: [(&str, &[u8]); 8] = [
    ("CMYK", include_bytes!("fixtures/cmyk.jpg")),
    ("gray", include_bytes!("fixtures/gray.jpg")),
    ("progressive", include_bytes!("fixtures/progressive.jpg")),
    ("with fewer samples of colour", include_bytes!("fixtures/subsampled.jpg")),
    ("lossy", include_bytes!("fixtures/lossy.webp")),
    ("lossy with alpha", include_bytes!("fixtures/lossy-alpha.webp")),
    ("lossless with alpha", include_bytes!("fixtures/lossless-alpha.webp")),
    ("moving", include_bytes!("fixtures/moving.webp")),
];

/// The image crate wraps the same decoders.
#[track_caller]
fn assert_as_the_image_crate_decodes(name: &str, bytes: &[u8]) {
    let expected = image::load_from_memory(bytes).unwrap();
    let found = decode(bytes, &ImageLimits::default()).unwrap().pixels;
    let (width, height, has_alpha) =
        (expected.width(), expected.height(), expected.color().has_alpha());
    let bytes = match has_alpha {
        true => expected.into_rgba8().into_raw(),
        false => expected.into_rgb8().into_raw(),
    };
    assert_eq!(found, Pixels { width, height, has_alpha, bytes }, "{name}");
}

/// A PNG of noise.
fn png(color: png::ColorType, depth: png::BitDepth, clear: Option<&[u8]>) -> Vec<u8> {
    let (width, height) = (13_usize, 7_usize);
    let bits = width * color.samples() * depth as usize;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        let palette = (0..256 * 3_u32).map(|it| (it * 77 % 256) as u8);
        encoder.set_palette(palette.take(3 << (depth as usize)).collect::<Vec<u8>>());
    }
    if let Some(clear) = clear {
        encoder.set_trns(clear.to_vec());
    }
    let noise = (0..).map(|it: u32| (it.wrapping_mul(2_654_435_761) >> 13) as u8);
    let pixels: Vec<u8> = noise.take(bits.div_ceil(8) * height).collect();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn every_kind_of_png_has_the_pixels_that_it_had_in_the_image_crate() {
    use png::{BitDepth::*, ColorType::*};
    for (color, depth) in [
        (Grayscale, One),
        (Grayscale, Two),
        (Grayscale, Four),
        (Grayscale, Eight),
        (Grayscale, Sixteen),
        (Rgb, Eight),
        (Rgb, Sixteen),
        (Indexed, One),
        (Indexed, Two),
        (Indexed, Four),
        (Indexed, Eight),
        (GrayscaleAlpha, Eight),
        (GrayscaleAlpha, Sixteen),
        (Rgba, Eight),
        (Rgba, Sixteen),
    ] {
        let name = format!("{color:?} {depth:?}");
        assert_as_the_image_crate_decodes(&name, &png(color, depth, None));
        let clear: &[u8] = match color {
            Grayscale => &[0, 1],
            Rgb => &[0, 1, 0, 2, 0, 3],
            Indexed => &[0, 128],
            GrayscaleAlpha | Rgba => continue,
        };
        assert_as_the_image_crate_decodes(&name, &png(color, depth, Some(clear)));
    }
}

#[test]
fn every_kind_of_jpeg_and_webp_has_the_pixels_that_it_had_in_the_image_crate() {
    for (name, bytes) in FILES {
        assert_as_the_image_crate_decodes(name, bytes);
    }
}

#[test]
fn a_frame_of_a_gif_is_placed_on_its_canvas_and_cut_off_at_its_edges() {
    let (width, height) = (10, 8);
    for (left, top, wide, high) in [
        (0, 0, 10, 8),
        (0, 3, 10, 5),
        (0, 3, 10, 2),
        (2, 1, 4, 5),
        (5, 4, 9, 9),
        (0, 4, 10, 9),
        (9, 7, 1, 1),
        (10, 8, 3, 3),
        (40, 2, 3, 3),
        (3, 40, 3, 3),
    ] {
        let colors: Vec<u8> = (0..=255).map(|it| it ^ 0x55).take(3 * 32).collect();
        let pixels: Vec<u8> = (0..wide * high).map(|it| (it * 7 % 32) as u8).collect();
        let mut bytes = Vec::new();
        let mut encoder = gif::Encoder::new(&mut bytes, width, height, &colors).unwrap();
        let transparent = Some(3);
        let (width, height, buffer) = (wide, high, Cow::Owned(pixels));
        let frame =
            gif::Frame { left, top, width, height, transparent, buffer, ..Default::default() };
        encoder.write_frame(&frame).unwrap();
        drop(encoder);
        let name = format!("{wide} x {high} at {left}, {top}");
        assert_as_the_image_crate_decodes(&name, &bytes);
    }
}

#[test]
fn a_frame_that_needs_too_much_memory_is_refused() {
    let frame = gif::Frame {
        width: 64,
        height: 64,
        buffer: vec![0; 4_096].into(),
        ..gif::Frame::default()
    };
    let mut bytes = Vec::new();
    let mut encoder = gif::Encoder::new(&mut bytes, 10, 10, &[0; 6]).unwrap();
    for _ in 0..2 {
        encoder.write_frame(&frame).unwrap();
    }
    drop(encoder);
    let tight = ImageLimits { allocation_max: 4 * 4_096 - 1, ..ImageLimits::default() };
    let refused = Err(ImageError::Memory { bytes: 4 * 4_096, max: 4 * 4_096 - 1 });
    assert_eq!(decode(&bytes, &tight).map(drop), refused);
    let outline = Outline::read(&bytes, &tight).unwrap();
    assert_eq!(check_frames(&bytes, &outline, &tight), refused);
}
