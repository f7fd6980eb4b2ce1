//! Making images smaller, or larger: bicubic (Catmull-Rom), with every pixel of the part counted.

use super::pixels::Pixels;

/// A part of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Part {
    /// All of an image.
    pub(crate) fn whole(pixels: &Pixels) -> Self {
        let (width, height) = (f64::from(pixels.width), f64::from(pixels.height));
        Self { left: 0.0, top: 0.0, width, height }
    }

    fn is_within(&self, width: u32, height: u32) -> bool {
        let Self { left, top, width: wide, height: high } = *self;
        let is_part = |start: f64, len: f64, all: u32| {
            0.0 <= start && 0.0 < len && start + len <= f64::from(all)
        };
        is_part(left, wide, width) && is_part(top, high, height)
    }
}

/// A part of an image in another size. `None` if the part is not inside of the image, or there is
/// nothing to make.
pub(crate) fn scale(pixels: Pixels, part: Part, width: u32, height: u32) -> Option<Pixels> {
    let Pixels { width: from_width, height: from_height, has_alpha, .. } = pixels;
    if part == Part::whole(&pixels) && (width, height) == (from_width, from_height) {
        return Some(pixels);
    }
    if !part.is_within(from_width, from_height) || width == 0 || height == 0 {
        return None;
    }
    let columns = taps(from_width, (part.left, part.width), width);
    let rows = taps(from_height, (part.top, part.height), height);
    let bytes = match has_alpha {
        true => resample::<4>(&pixels.bytes, from_width, &columns, &rows),
        false => resample::<3>(&pixels.bytes, from_width, &columns, &rows),
    };
    Some(Pixels { width, height, has_alpha, bytes })
}

/// The neighbours that make one new pixel of a row or a column, and their weights, which sum to 1.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// The taps of `to_len` new pixels over `len` of `all` old ones.
fn taps(all: u32, (start, len): (f64, f64), to_len: u32) -> Vec<Taps> {
    let ratio = len / f64::from(to_len);
    // Of a larger image, each pixel counts; of a smaller one, the four nearest do.
    let stretch = ratio.max(1.0);
    let new_taps = |index: u32| {
        let middle = start + (f64::from(index) + 0.5) * ratio;
        let first = (middle - 2.0 * stretch).floor().max(0.0) as usize;
        let last = (middle + 2.0 * stretch).ceil().min(f64::from(all)) as usize;
        let weight = |at: usize| catmull_rom((at as f64 + 0.5 - middle) / stretch);
        let sum: f64 = (first..last).map(weight).sum();
        let weights = (first..last).map(|at| (weight(at) / sum) as f32).collect();
        Taps { first, weights }
    };
    (0..to_len).map(new_taps).collect()
}

fn catmull_rom(distance: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        (1.5 * x - 2.5) * x * x + 1.0
    } else if x < 2.0 {
        ((2.5 - 0.5 * x) * x - 4.0) * x + 2.0
    } else {
        0.0
    }
}

/// New pixels of `N` bytes, of which the fourth is alpha. Row by row: first down the columns, in
/// loops that the compiler vectorizes, then along the row, which is short by then.
fn resample<const N: usize>(
    from: &[u8],
    from_width: u32,
    columns: &[Taps],
    rows: &[Taps],
) -> Vec<u8> {
    let row_len = from_width as usize * N;
    let mut sums = vec![0.0_f32; row_len];
    let mut to = Vec::with_capacity(columns.len() * rows.len() * N);
    for row in rows {
        sums.fill(0.0);
        let lines = from.chunks_exact(row_len).skip(row.first);
        for (line, weight) in lines.zip(&row.weights) {
            add::<N>(&mut sums, line, *weight);
        }
        let pixels = sums.as_chunks::<N>().0;
        for column in columns {
            let mut sum = [0.0_f32; N];
            for (pixel, weight) in pixels[column.first..].iter().zip(&column.weights) {
                for channel in 0..N {
                    sum[channel] += pixel[channel] * weight;
                }
            }
            to.extend(to_bytes(sum));
        }
    }
    to
}

/// Adds the pixels of a line, each colour in proportion to its alpha.
fn add<const N: usize>(sums: &mut [f32], line: &[u8], weight: f32) {
    if N != 4 {
        for (sum, value) in sums.iter_mut().zip(line) {
            *sum += f32::from(*value) * weight;
        }
        return;
    }
    for (sum, pixel) in sums.as_chunks_mut::<4>().0.iter_mut().zip(line.as_chunks::<4>().0) {
        let alpha = f32::from(pixel[3]) * weight;
        for channel in 0..3 {
            sum[channel] += f32::from(pixel[channel]) * (alpha / 255.0);
        }
        sum[3] += alpha;
    }
}

fn to_bytes<const N: usize>(mut sum: [f32; N]) -> [u8; N] {
    if let Some((alpha, colors)) = sum.split_last_mut().filter(|_| N == 4) {
        let part = if *alpha <= 0.0 { 0.0 } else { 255.0 / *alpha };
        colors.iter_mut().for_each(|it| *it *= part);
    }
    // A cast to an integer keeps to its range.
    sum.map(|it| (it + 0.5) as u8)
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, Rgba, RgbaImage};

    use super::*;

    fn scaled(pixels: Pixels, width: u32, height: u32) -> Vec<u8> {
        let part = Part::whole(&pixels);
        scale(pixels, part, width, height).unwrap().bytes
    }

    fn rgb(image: RgbImage) -> Pixels {
        let (width, height) = image.dimensions();
        Pixels { width, height, has_alpha: false, bytes: image.into_raw() }
    }

    #[test]
    fn one_color_stays_that_color_in_every_size() {
        for (width, height) in [(1, 1), (7, 3), (40, 40), (41, 39), (300, 2)] {
            let image = rgb(RgbImage::from_pixel(40, 40, Rgb([250, 3, 128])));
            let pixels = [250, 3, 128].repeat((width * height) as usize);
            assert_eq!(scaled(image, width, height), pixels);
        }
    }

    #[test]
    fn a_color_that_nobody_sees_does_not_shine_through() {
        let stripes = |x: u32, _: u32| match x % 2 {
            0 => Rgba([200, 100, 50, 255]),
            _ => Rgba([0, 255, 0, 0]),
        };
        let bytes = RgbaImage::from_fn(64, 64, stripes).into_raw();
        let image = Pixels { width: 64, height: 64, has_alpha: true, bytes };
        for pixel in scaled(image, 8, 8).as_chunks::<4>().0 {
            assert!(pixel[..3] == [200, 100, 50] && (120..=136).contains(&pixel[3]), "{pixel:?}");
        }
    }

    /// The same filter of another implementation. It rounds between its two passes.
    #[test]
    fn the_pixels_are_those_of_a_catmull_rom_filter() {
        let noise = |x: u32, y: u32| {
            let it = (x * 7_919 + y * 104_729) ^ (x * y * 31);
            Rgb([it, it >> 3, it >> 7].map(|it| (it % 256) as u8))
        };
        let image = RgbImage::from_fn(97, 61, noise);
        for (width, height) in [(31, 20), (97, 10), (5, 61), (150, 90), (1, 1)] {
            let filter = image::imageops::FilterType::CatmullRom;
            let expected = image::imageops::resize(&image, width, height, filter);
            let found = scaled(rgb(image.clone()), width, height);
            let far = expected.iter().zip(found.iter()).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(far.unwrap() <= 2, "{width} x {height}: {far:?}");
        }
    }

    #[test]
    fn a_part_outside_of_the_image_is_refused() {
        let image = || rgb(RgbImage::new(10, 10));
        let whole = Part::whole(&image());
        for part in [Part { left: 1.0, ..whole }, Part { top: -1.0, ..whole }] {
            assert!(scale(image(), part, 5, 5).is_none());
        }
        assert!(scale(image(), Part { height: 0.0, ..whole }, 5, 5).is_none());
        assert!(scale(image(), whole, 0, 5).is_none());
    }
}
