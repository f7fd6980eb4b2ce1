//! Writing images: PNG, and a JPEG writer for small copies.

use std::io;

use super::pixels::Pixels;

/// Small, and nobody sees the difference at the size of a card.
const JPEG_QUALITY: u32 = 82;

/// Writes a PNG of rows of pixels with three bytes each: red, green, blue. It fails if they are not
/// as many as the size says.
pub fn encode_png(width: u32, height: u32, rgb: &[u8]) -> io::Result<Vec<u8>> {
    write_png(width, height, png::ColorType::Rgb, rgb)
}

/// Writes a JPEG, or a PNG if one can see through the image.
pub(crate) fn encode(image: Pixels) -> io::Result<Vec<u8>> {
    let Pixels { width, height, has_alpha, .. } = image;
    if has_alpha && image.bytes.as_chunks::<4>().0.iter().any(|it| it[3] < u8::MAX) {
        return write_png(width, height, png::ColorType::Rgba, &image.bytes);
    }
    let short = |edge: u32| u16::try_from(edge).map_err(io::Error::other);
    Ok(write_jpeg(short(width)?, short(height)?, &image.into_rgb()))
}

fn write_png(width: u32, height: u32, color: png::ColorType, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(bytes)?;
    writer.finish()?;
    Ok(file)
}

// Tables of ITU T.81, annex K, and figure A.6.

/// Divisors of the frequencies of brightness, row by row.
const LUMA: [u8; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// Divisors of the frequencies of colour.
const CHROMA: [u8; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// The order in which the frequencies of a block are written.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// A Huffman table: how many codes have each length from 1 to 16 bits, and their symbols.
type Huffman = ([u8; 16], &'static [u8]);

/// For differences of averages. The tables for brightness serve the colours as well.
const DC: Huffman =
    ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);

/// For the other frequencies: how many zeros come before one, and its number of bits.
const AC: Huffman = (
    [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
    &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61,
        0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52,
        0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25,
        0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
        0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
        0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
        0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
        0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
        0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3,
        0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
        0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
);

/// Writes a baseline JPEG with full resolution of colours.
fn write_jpeg(width: u16, height: u16, rgb: &[u8]) -> Vec<u8> {
    let divisors = [LUMA, CHROMA].map(|table| {
        // The scale of libjpeg, for qualities from 50.
        table.map(|it| ((u32::from(it) * (200 - 2 * JPEG_QUALITY) + 50) / 100).clamp(1, 255) as u8)
    });
    let mut file = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x02\0\0\x01\0\x01\0\0\xff\xdb\0\x84".to_vec();
    for (number, table) in (0..).zip(&divisors) {
        file.push(number);
        file.extend(ZIGZAG.map(|it| table[usize::from(it)]));
    }
    file.extend(b"\xff\xc0\0\x11\x08");
    file.extend([height.to_be_bytes(), width.to_be_bytes()].as_flattened());
    file.extend(b"\x03\x01\x11\0\x02\x11\x01\x03\x11\x01\xff\xc4\0\xd2");
    for (number, (lengths, symbols)) in [(0, DC), (0x10, AC)] {
        file.push(number);
        file.extend(lengths);
        file.extend(symbols);
    }
    file.extend(b"\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0");
    let mut writer = BlockWriter { dc: codes(DC), ac: codes(AC), file, bits: 0, len: 0 };
    let waves = waves();
    let (width, height) = (usize::from(width), usize::from(height));
    let pixels = rgb.as_chunks::<3>().0;
    let mut averages = [0; 3];
    for top in (0..height).step_by(8) {
        for left in (0..width).step_by(8) {
            let mut planes = [[0.0; 64]; 3];
            for at in 0..64 {
                // The last column and row are repeated up to the end of the block.
                let (x, y) = ((left + at % 8).min(width - 1), (top + at / 8).min(height - 1));
                for (plane, value) in planes.iter_mut().zip(to_ycc(pixels[y * width + x])) {
                    plane[at] = value;
                }
            }
            for (index, plane) in planes.iter().enumerate() {
                let frequencies = frequencies(plane, &waves);
                let table = &divisors[index.min(1)];
                let block = ZIGZAG
                    .map(usize::from)
                    .map(|it| (frequencies[it] / f32::from(table[it])).round() as i32);
                writer.write(&block, averages[index]);
                averages[index] = block[0];
            }
        }
    }
    writer.push((0x7f, 7));
    writer.file.extend(b"\xff\xd9");
    writer.file
}

/// Brightness and two differences of colours, each around 0.
fn to_ycc(rgb: [u8; 3]) -> [f32; 3] {
    let [red, green, blue] = rgb.map(f32::from);
    let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
    [luma - 128.0, (blue - luma) / 1.772, (red - luma) / 1.402]
}

/// Eight samples of each of eight cosine waves, of length 1.
fn waves() -> [[f32; 8]; 8] {
    std::array::from_fn(|wave| {
        let scale = if wave == 0 { 0.125_f64.sqrt() } else { 0.5 };
        std::array::from_fn(|at| {
            let angle = ((2 * at + 1) * wave) as f64 * std::f64::consts::PI / 16.0;
            (scale * angle.cos()) as f32
        })
    })
}

/// The frequencies of a block (discrete cosine transform), first along the rows.
fn frequencies(block: &[f32; 64], waves: &[[f32; 8]; 8]) -> [f32; 64] {
    let sum = |values: [f32; 8], wave: usize| {
        values.iter().zip(&waves[wave]).map(|(value, wave)| value * wave).sum::<f32>()
    };
    let rows: [f32; 64] =
        std::array::from_fn(|at| sum(std::array::from_fn(|x| block[at / 8 * 8 + x]), at % 8));
    std::array::from_fn(|at| sum(std::array::from_fn(|y| rows[y * 8 + at % 8]), at / 8))
}

/// The code of each symbol and its number of bits.
fn codes((lengths, symbols): Huffman) -> [(u32, u32); 256] {
    let mut codes = [(0, 0); 256];
    let (mut code, mut symbols) = (0, symbols.iter());
    for (len, count) in (1..).zip(lengths) {
        for symbol in symbols.by_ref().take(usize::from(count)) {
            codes[usize::from(*symbol)] = (code, len);
            code += 1;
        }
        code <<= 1;
    }
    codes
}

struct BlockWriter {
    dc: [(u32, u32); 256],
    ac: [(u32, u32); 256],
    file: Vec<u8>,
    /// Bits that do not fill a byte yet, and how many.
    bits: u32,
    len: u32,
}

impl BlockWriter {
    /// Writes a block whose predecessor had this average.
    fn write(&mut self, block: &[i32; 64], average: i32) {
        let (bits, len) = magnitude(block[0] - average);
        self.push(self.dc[len as usize]);
        self.push((bits, len));
        let mut zeros = 0;
        for value in &block[1..] {
            if *value == 0 {
                zeros += 1;
                continue;
            }
            for _ in 0..zeros / 16 {
                self.push(self.ac[0xf0]);
            }
            let (bits, len) = magnitude(*value);
            self.push(self.ac[zeros % 16 * 16 + len as usize]);
            self.push((bits, len));
            zeros = 0;
        }
        if 0 < zeros {
            self.push(self.ac[0]);
        }
    }

    fn push(&mut self, (bits, len): (u32, u32)) {
        self.bits = self.bits << len | bits;
        self.len += len;
        while 8 <= self.len {
            self.len -= 8;
            let byte = (self.bits >> self.len) as u8;
            self.file.push(byte);
            if byte == 0xff {
                // Otherwise it would begin a marker.
                self.file.push(0);
            }
            self.bits &= (1 << self.len) - 1;
        }
    }
}

/// The bits of a number and how many it has. A negative one has its bits inverted.
fn magnitude(value: i32) -> (u32, u32) {
    let len = 32 - value.unsigned_abs().leading_zeros();
    let bits = if value < 0 { (value - 1) as u32 & ((1 << len) - 1) } else { value as u32 };
    (bits, len)
}

#[cfg(test)]
mod tests {
    use image::{DynamicImage, RgbImage, codecs::jpeg::JpegEncoder};

    use super::*;

    fn noise(x: u32, y: u32) -> [u8; 3] {
        let it = (x * 7_919 + y * 104_729) ^ (x * y * 31);
        [it, it >> 3, it >> 7].map(|it| (it % 256) as u8)
    }

    fn waves(x: u32, y: u32) -> [u8; 3] {
        let wave = |it: u32| (127.5 + 127.5 * (it as f32 / 9.0).sin()) as u8;
        [wave(x), wave(y + 20), wave(x + y)]
    }

    /// The mean squared difference of two pictures.
    fn far(one: &RgbImage, other: &RgbImage) -> f64 {
        assert_eq!(one.dimensions(), other.dimensions());
        let square = |(a, b): (&u8, &u8)| f64::from(a.abs_diff(*b)).powi(2);
        one.iter().zip(other.iter()).map(square).sum::<f64>() / one.len() as f64
    }

    #[test]
    fn a_jpeg_is_as_good_and_as_small_as_that_of_the_image_crate() {
        let black_and_white =
            |x: u32, y: u32| [if (x / 3 + y / 5).is_multiple_of(2) { 0 } else { 255 }; 3];
        let pictures: [fn(u32, u32) -> [u8; 3]; 4] =
            [noise, waves, black_and_white, |_, _| [200, 30, 90]];
        for (width, height) in [(1, 1), (8, 8), (9, 17), (64, 40), (300, 3), (97, 61)] {
            for picture in pictures {
                let image = RgbImage::from_fn(width, height, |x, y| picture(x, y).into());
                let bytes = image.as_raw().clone();
                let ours = encode(Pixels { width, height, has_alpha: false, bytes }).unwrap();
                let mut theirs = Vec::new();
                let encoder = JpegEncoder::new_with_quality(&mut theirs, JPEG_QUALITY as u8);
                image.write_with_encoder(encoder).unwrap();
                let read = |it: &[u8]| image::load_from_memory(it).unwrap().to_rgb8();
                let (our_error, their_error) =
                    (far(&image, &read(&ours)), far(&image, &read(&theirs)));
                let what = format!("{width} x {height}: {our_error} {their_error}");
                assert!(our_error <= their_error * 1.02 + 2.0, "{what}");
                // The headers are smaller; codes of colours are a little longer.
                assert!(ours.len() <= theirs.len() + theirs.len() / 10, "{what}");
            }
        }
    }

    #[test]
    fn a_png_has_the_pixels_it_was_made_of() {
        let image = RgbImage::from_fn(37, 11, |x, y| noise(x, y).into());
        let png = encode_png(37, 11, image.as_raw()).unwrap();
        assert_eq!(image::load_from_memory(&png).unwrap(), DynamicImage::ImageRgb8(image));
        assert!(encode_png(37, 12, &[0; 37 * 11 * 3]).is_err());
        assert!(encode_png(0, 0, &[]).is_err());
    }
}
