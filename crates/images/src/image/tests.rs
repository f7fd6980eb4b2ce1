use image::{
    Delay, DynamicImage, Frame, GenericImageView, Rgba, RgbaImage,
    codecs::gif::{GifEncoder, Repeat},
    metadata::Orientation,
};

use super::*;

fn limits() -> ImageLimits {
    ImageLimits::default()
}

/// Red, green, blue and white quarters: every way of turning it looks different.
fn quarters(width: u32, height: u32) -> DynamicImage {
    DynamicImage::ImageRgba8(RgbaImage::from_fn(width, height, |x, y| {
        match (x < width / 2, y < height / 2) {
            (true, true) => Rgba([255, 0, 0, 255]),
            (false, true) => Rgba([0, 255, 0, 255]),
            (true, false) => Rgba([0, 0, 255, 255]),
            (false, false) => Rgba([255, 255, 255, 255]),
        }
    }))
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    match format {
        ImageFormat::Png => image.write_to(&mut bytes, image::ImageFormat::Png).unwrap(),
        ImageFormat::Jpeg => {
            image.to_rgb8().write_to(&mut bytes, image::ImageFormat::Jpeg).unwrap()
        }
        ImageFormat::Webp => image.write_to(&mut bytes, image::ImageFormat::WebP).unwrap(),
        ImageFormat::Gif => return gif(image.width(), image.height(), 1),
    }
    bytes.into_inner()
}

fn gif(width: u32, height: u32, frames: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    {
        let mut encoder = GifEncoder::new_with_speed(&mut bytes, 30);
        encoder.set_repeat(Repeat::Infinite).unwrap();
        for index in 0..frames {
            let color = Rgba([u8::try_from(index % 200).unwrap(), 10, 20, 255]);
            let image = RgbaImage::from_pixel(width, height, color);
            let delay = Delay::from_numer_denom_ms(10, 1);
            encoder.encode_frame(Frame::from_parts(image, 0, 0, delay)).unwrap();
        }
    }
    bytes
}

const ALL: [ImageFormat; 4] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Webp, ImageFormat::Gif];

/// A chunk of a PNG, with its checksum.
fn chunk(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut sum = u32::MAX;
    for byte in kind.iter().chain(body) {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    let len = u32::try_from(body.len()).unwrap();
    [&len.to_be_bytes(), &kind[..], body, &(!sum).to_be_bytes()].concat()
}

/// Puts a chunk behind the header of a PNG.
fn with_chunk(png: &[u8], kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&png[..33], &chunk(kind, body), &png[33..]].concat()
}

/// An orientation, as cameras write it.
fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend_from_slice(&[orientation, 0, 0, 0, 0, 0, 0, 0]);
    exif
}

/// Puts an orientation behind the start of a JPEG.
fn turned_jpeg(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let body = [b"Exif\0\0", &exif(orientation)[..]].concat();
    let len = u16::try_from(body.len() + 2).unwrap();
    [&jpeg[..2], &[0xff, 0xe1], &len.to_be_bytes(), &body, &jpeg[2..]].concat()
}

#[test]
fn each_format_is_known_by_its_bytes_and_measured() {
    for format in ALL {
        let bytes = encoded(&quarters(40, 24), format);
        let inspected = inspect(&bytes, &limits()).unwrap();
        let expected = Inspected {
            format,
            content_type: format.content_type(),
            width: 40,
            height: 24,
            frames: 1,
            is_turned: false,
        };
        assert_eq!(inspected, expected);
    }
    assert_eq!(inspect(&gif(8, 8, 7), &limits()).unwrap().frames, 7);
}

#[test]
fn what_only_has_the_name_of_an_image_is_refused() {
    let svg = br#"<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>"#;
    for bytes in [&svg[..], b"<!doctype html><p>cat.png", b"BM\0\0\0\0", b"%PDF-1.7", b"\0", b"GIF"]
    {
        assert_eq!(inspect(bytes, &limits()), Err(ImageError::Format));
    }
}

#[test]
fn none_and_one_too_many_bytes_are_refused() {
    assert_eq!(inspect(b"", &limits()), Err(ImageError::Empty));
    let bytes = encoded(&quarters(16, 16), ImageFormat::Png);
    let tight = ImageLimits { bytes_max: bytes.len(), ..limits() };
    assert!(inspect(&bytes, &tight).is_ok());
    let tighter = ImageLimits { bytes_max: bytes.len() - 1, ..limits() };
    let refused = ImageError::TooLarge { bytes: bytes.len(), max: bytes.len() - 1 };
    assert_eq!(inspect(&bytes, &tighter), Err(refused));
}

#[test]
fn no_beginning_of_an_image_passes_for_the_image() {
    for format in ALL {
        let bytes = encoded(&quarters(40, 24), format);
        for len in 1..bytes.len() {
            let error = inspect(&bytes[..len], &limits()).expect_err("it is cut off");
            let known = matches!(error, ImageError::Truncated { .. } | ImageError::Format);
            assert!(known, "{format} cut at {len}: {error:?}");
        }
    }
}

#[test]
fn a_jpeg_whose_preview_is_whole_is_still_found_cut_off() {
    let whole = encoded(&quarters(64, 64), ImageFormat::Jpeg);
    let preview = encoded(&quarters(8, 8), ImageFormat::Jpeg);
    let len = u16::try_from(preview.len() + 2).unwrap();
    let bytes = [&whole[..2], &[0xff, 0xe2], &len.to_be_bytes(), &preview, &whole[2..]].concat();
    assert!(inspect(&bytes, &limits()).is_ok());
    let cut = inspect(&bytes[..bytes.len() - 40], &limits());
    assert_eq!(cut, Err(ImageError::Truncated { format: ImageFormat::Jpeg }));
}

#[test]
fn bytes_behind_the_end_do_no_harm() {
    for format in ALL {
        let mut bytes = encoded(&quarters(40, 24), format);
        bytes.extend_from_slice(b"a short film follows");
        assert!(inspect(&bytes, &limits()).is_ok(), "{format}");
    }
}

#[test]
fn a_header_that_claims_too_much_never_reaches_a_decoder() {
    let mut png = encoded(&quarters(16, 16), ImageFormat::Png);
    png[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
    let mut jpeg = encoded(&quarters(16, 16), ImageFormat::Jpeg);
    let at = jpeg.windows(2).position(|it| it == [0xff, 0xc0]).unwrap();
    jpeg[at + 5..at + 9].copy_from_slice(&[0xff, 0xdc, 0xff, 0xdc]);
    let mut canvas = gif(16, 16, 1);
    canvas[6..10].fill(0xff);
    let mut frame = gif(16, 16, 1);
    let at = frame.windows(9).position(|it| it == [b',', 0, 0, 0, 0, 16, 0, 16, 0]).unwrap();
    frame[at + 5..at + 9].fill(0xff);
    let webp = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff";
    for bytes in [&png[..], &jpeg, &canvas, &frame, webp] {
        let error = inspect(bytes, &limits()).unwrap_err();
        assert_eq!(error.code(), "image_dimensions_exceeded", "{error}");
    }
    png[16..24].copy_from_slice(&[0, 0, 0x20, 0, 0, 0, 0x20, 0]);
    assert_eq!(inspect(&png, &limits()).unwrap_err().code(), "image_pixels_exceeded");
    // 4,096 x 6,144 with 16 bits for each of four channels.
    png[16..26].copy_from_slice(&[0, 0, 0x10, 0, 0, 0, 0x18, 0, 16, 6]);
    let header = chunk(b"IHDR", &png[16..29]);
    png[8..33].copy_from_slice(&header);
    assert_eq!(inspect(&png, &limits()).unwrap_err().code(), "image_memory_exceeded");
}

#[test]
fn animations_are_bounded_in_frames_and_in_all_their_pixels() {
    assert_eq!(inspect(&gif(1, 1, 500), &limits()).unwrap().frames, 500);
    let endless = inspect(&gif(1, 1, 501), &limits());
    assert_eq!(endless, Err(ImageError::Frames { max: 500 }));

    // A large canvas and frames of one pixel: each frame costs as much as the canvas.
    let mut wide = gif(1, 1, 30);
    wide[6..10].copy_from_slice(&[0x00, 0x10, 0x00, 0x10]);
    assert_eq!(inspect(&wide, &limits()).unwrap_err().code(), "image_pixels_exceeded");
}

/// An animation as WebP, with frames of 16 x 16 on a canvas.
fn moving_webp(canvas: u32, frames: usize, inside: &[u8]) -> Vec<u8> {
    let chunk = |kind: &[u8; 4], body: &[u8]| {
        let len = u32::try_from(body.len()).unwrap();
        let gap = vec![0; body.len() % 2];
        [&kind[..], &len.to_le_bytes(), body, &gap].concat()
    };
    let edge = |edge: u32| (edge - 1).to_le_bytes()[..3].to_vec();
    let mut body = b"WEBP".to_vec();
    body.extend(chunk(b"VP8X", &[&[0x12, 0, 0, 0], &edge(canvas)[..], &edge(canvas)].concat()));
    body.extend(chunk(b"ANIM", &[0; 6]));
    for _ in 0..frames {
        let place = [&[0; 6], &edge(16)[..], &edge(16), &[10, 0, 0, 0]].concat();
        body.extend(chunk(b"ANMF", &[&place, inside].concat()));
    }
    let len = u32::try_from(body.len()).unwrap();
    [&b"RIFF"[..], &len.to_le_bytes(), &body].concat()
}

#[test]
fn a_webp_that_moves_is_bounded_as_a_gif_is() {
    let still = encoded(&quarters(16, 16), ImageFormat::Webp);
    let inside = &still[12..];
    let inspected = inspect(&moving_webp(20, 3, inside), &limits()).unwrap();
    assert_eq!((inspected.frames, inspected.width, inspected.height), (3, 20, 20));
    assert!(thumbnail(&moving_webp(20, 3, inside), &limits(), 10).is_ok());
    let endless = inspect(&moving_webp(16, 501, inside), &limits());
    assert_eq!(endless, Err(ImageError::Frames { max: 500 }));
    let wide = inspect(&moving_webp(4_096, 30, inside), &limits());
    assert_eq!(wide.unwrap_err().code(), "image_pixels_exceeded");
    let none = inspect(&moving_webp(16, 0, inside), &limits());
    assert_eq!(none.unwrap_err().code(), "image_undecodable");
    // A frame of 16 x 16 whose pixels say 16,383 x 16,383.
    let bomb = b"VP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a\xff\x3f\xff\x3f";
    let bomb = inspect(&moving_webp(16, 1, bomb), &limits()).unwrap_err();
    assert!(bomb.to_string().contains("disagree"), "{bomb}");
}

#[test]
fn a_frame_that_cannot_be_decoded_spoils_the_animation() {
    let mut bytes = gif(64, 64, 3);
    assert!(inspect(&bytes, &limits()).is_ok());
    let last = bytes.windows(9).rposition(|it| it == [b',', 0, 0, 0, 0, 64, 0, 64, 0]).unwrap();
    // Behind the descriptor and its colours are the width of a code and the packed pixels.
    let colors = usize::from(bytes[last + 9] & 0x80 != 0) * (3 << ((bytes[last + 9] & 7) + 1));
    let pixels = last + 10 + colors + 2;
    bytes[pixels..pixels + 4].fill(0xff);
    assert_eq!(inspect(&bytes, &limits()).unwrap_err().code(), "image_undecodable");
}

#[test]
fn a_jpeg_with_endless_scans_is_refused() {
    let jpeg = encoded(&quarters(16, 16), ImageFormat::Jpeg);
    let scan = jpeg.windows(2).position(|it| it == [0xff, 0xda]).unwrap();
    let end = jpeg.len() - 2;
    let mut bytes = jpeg[..end].to_vec();
    for _ in 0..100 {
        bytes.extend_from_slice(&jpeg[scan..end]);
    }
    bytes.extend_from_slice(&jpeg[end..]);
    assert_eq!(inspect(&bytes, &limits()), Err(ImageError::Scans { max: 100 }));
}

#[test]
fn texts_in_a_png_never_reach_the_decoder() {
    let png = encoded(&quarters(16, 16), ImageFormat::Png);
    let text = with_chunk(&png, b"zTXt", b"bomb\0\0not even zlib");
    let text = with_chunk(&text, b"iCCP", b"profile\0\0not even zlib");
    let outline = super::super::outline::Outline::read(&text, &limits()).unwrap();
    assert_eq!(outline.cleaned, Some(png));
    assert!(inspect(&text, &limits()).is_ok());
}

#[test]
fn whatever_is_broken_the_answer_is_an_error_or_an_image_within_limits() {
    let tight = ImageLimits { width_max: 64, height_max: 64, ..limits() };
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut chance = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
    };
    for format in ALL {
        let whole = encoded(&quarters(48, 32), format);
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..=chance(4) {
                let at = chance(bytes.len());
                bytes[at] = u8::try_from(chance(256)).unwrap();
            }
            if let Ok(it) = inspect(&bytes, &tight) {
                assert!(it.width <= 64 && it.height <= 64);
            }
            let _ = thumbnail(&bytes, &tight, 16);
        }
    }
}

#[test]
fn each_orientation_is_turned_upright() {
    let upright = quarters(24, 16);
    for value in 1..=8 {
        // The pixels that a camera held that way would store.
        let mut stored = upright.clone();
        let back = match value {
            6 => 8,
            8 => 6,
            same => same,
        };
        stored.apply_orientation(Orientation::from_exif(back).unwrap());
        let png = encoded(&stored, ImageFormat::Png);
        let png = with_chunk(&png, b"eXIf", &exif(value));
        let jpeg = turned_jpeg(&encoded(&stored, ImageFormat::Jpeg), value);

        let found = decode_upright(&png, &limits()).unwrap();
        assert_eq!(found.rgba, upright.to_rgba8().into_raw(), "orientation {value}");
        for bytes in [png, jpeg] {
            let inspected = inspect(&bytes, &limits()).unwrap();
            assert_eq!((inspected.width, inspected.height), (24, 16), "orientation {value}");
            let small = thumbnail(&bytes, &limits(), 12).unwrap();
            let small = image::load_from_memory(&small).unwrap();
            assert_eq!(small.dimensions(), (12, 8));
            let Rgba([red, green, blue, _]) = small.get_pixel(1, 1);
            assert!(red > 200 && green < 60 && blue < 60, "orientation {value}");
        }
    }
}

#[test]
fn a_thumbnail_is_a_jpeg_unless_one_can_see_through_it() {
    for format in ALL {
        let small = thumbnail(&encoded(&quarters(300, 200), format), &limits(), 100).unwrap();
        let inspected = inspect(&small, &limits()).unwrap();
        assert_eq!(inspected.format, ImageFormat::Jpeg);
        assert_eq!((inspected.width, inspected.height), (100, 67));
    }
    let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(300, 3, Rgba([9, 9, 9, 128])));
    let small = thumbnail(&encoded(&clear, ImageFormat::Png), &limits(), 100).unwrap();
    let inspected = inspect(&small, &limits()).unwrap();
    assert_eq!(inspected.format, ImageFormat::Png);
    assert_eq!((inspected.width, inspected.height), (100, 1));
}

#[test]
fn a_small_image_is_not_made_larger() {
    let small = thumbnail(&encoded(&quarters(20, 10), ImageFormat::Png), &limits(), 100).unwrap();
    let inspected = inspect(&small, &limits()).unwrap();
    assert_eq!((inspected.width, inspected.height), (20, 10));
}
