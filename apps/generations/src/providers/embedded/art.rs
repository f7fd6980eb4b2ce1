//! Images: noise bent by noise, lit from the side, which looks like folds of cloth.

use std::io;

use steadfast_images::encode_png;

use super::{
    drawing::Drawing,
    noise::{Noise, Rng, step},
    palette::{Light, Palette, blend, scale, to_byte},
};

/// Draws an image as a PNG.
pub(super) fn png(drawing: &Drawing) -> io::Result<Vec<u8>> {
    let mut rng = drawing.rng();
    let palette = Palette::choose(drawing, &mut rng);
    let pixels = pixels(drawing, &palette, &mut rng);
    encode_png(drawing.width, drawing.height, &pixels)
}

/// The pixels, row by row. Positions are parts of the shorter edge, so that a larger image of the
/// same drawing shows the same.
fn pixels(drawing: &Drawing, palette: &Palette, rng: &mut Rng) -> Vec<u8> {
    let Drawing { width, height, .. } = *drawing;
    let folds = Folds::new(rng);
    let unit = width.min(height) as f32;
    let (right, bottom) = (width as f32 / unit, height as f32 / unit);
    let zoom = rng.range(1.1, 1.7);
    let line = |row: u32| -> Vec<(f32, f32)> {
        let y = zoom * (row as f32 + 0.5) / unit;
        let at = |it| folds.at(zoom * (it as f32 + 0.5) / unit, y, (0.0, 0.0));
        (0..=width).map(at).collect()
    };
    let mut pixels = Vec::with_capacity(width as usize * height as usize * 3);
    let mut this = line(0);
    for row in 0..height {
        // The slope towards the light is what changes until the next pixel across and down.
        let next = line(row + 1);
        for column in 0..width {
            let (value, bend) = this[column as usize];
            let slope = (next[column as usize + 1].0 - value) * 0.45 * unit / zoom;
            let (x, y) = (column as f32 / unit / right, row as f32 / unit / bottom);
            let (dx, dy) = (x - 0.5, y - 0.5);
            let lit = scale(shade(palette, value, bend, slope), 1.0 - 0.7 * (dx * dx + dy * dy));
            pixels.extend(lit.map(to_byte));
        }
        this = next;
    }
    pixels
}

fn shade(palette: &Palette, value: f32, bend: f32, slope: f32) -> Light {
    let base = palette.at(0.5 + 0.75 * value);
    let tinted = blend(base, palette.colour(2), step(0.1, 0.7, bend.abs()) * 0.45);
    let shaded = scale(tinted, (1.0 - 0.55 * slope).clamp(0.35, 1.7));
    blend(shaded, palette.colour(4), 0.6 * step(0.35, 1.3, -slope))
}

/// The field, which clips use as well.
pub(super) struct Folds {
    noise: Noise,
    offset: (f32, f32),
}

impl Folds {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let noise = Noise::new(rng);
        Self { noise, offset: (rng.range(0.0, 50.0), rng.range(0.0, 50.0)) }
    }

    /// Its value, and how far it was bent. `drift` moves the bends and not the place.
    pub(super) fn at(&self, x: f32, y: f32, drift: (f32, f32)) -> (f32, f32) {
        let (x, y) = (x + self.offset.0, y + self.offset.1);
        let first = self.noise.layers(x + drift.0, y + drift.1, 2);
        let second = self.noise.layers(x + 5.2 - drift.1, y + 1.3 + drift.0, 2);
        let bend = self.noise.layers(x + 1.9 * first + 8.3, y + 1.9 * second + 2.8, 2);
        (self.noise.layers(x + 1.6 * bend, y + 1.6 * first, 3), bend)
    }
}
