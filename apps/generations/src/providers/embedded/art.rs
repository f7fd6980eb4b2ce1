//! Images.

use image::{
    ExtendedColorType, ImageEncoder, ImageError,
    codecs::png::{CompressionType, FilterType, PngEncoder},
};

use super::{canvas::Canvas, drawing::Drawing, flow, hills, palette::Palette, shapes, silk};

/// The kinds of pictures, and words that ask for them.
const HILLS: [&str; 10] = [
    "mountain",
    "hill",
    "landscape",
    "valley",
    "sunset",
    "sunrise",
    "horizon",
    "desert",
    "alps",
    "lake",
];
const FLOW: [&str; 8] = ["flow", "wind", "river", "hair", "grass", "current", "storm", "fur"];
const SILK: [&str; 8] =
    ["silk", "marble", "smoke", "cloud", "abstract", "aurora", "liquid", "wave"];
const SHAPES: [&str; 8] =
    ["circle", "bubble", "planet", "geometric", "shape", "balloon", "moon", "lantern"];

/// Draws an image as a PNG.
pub(super) fn png(drawing: &Drawing) -> Result<Vec<u8>, ImageError> {
    let mut rng = drawing.rng();
    let palette = Palette::choose(drawing, &mut rng);
    let any = rng.below(4);
    let asked = [&HILLS[..], &FLOW, &SILK, &SHAPES].iter().position(|it| drawing.says(it));
    let mut canvas = Canvas::new(drawing.width, drawing.height);
    match asked.unwrap_or(any) {
        0 => hills::draw(&mut canvas, &palette, &mut rng),
        1 => flow::draw(&mut canvas, &palette, &mut rng),
        2 => silk::draw(&mut canvas, &palette, &mut rng),
        _ => shapes::draw(&mut canvas, &palette, &mut rng),
    }
    let mut bytes = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Adaptive);
    let Canvas { width, height, bytes: pixels, .. } = canvas;
    encoder.write_image(&pixels, width, height, ExtendedColorType::Rgb8)?;
    Ok(bytes)
}
