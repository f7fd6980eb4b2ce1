//! Noise bent by noise bent by noise, lit from the side: folds of cloth, or smoke.

use super::{
    canvas::Canvas,
    noise::{Noise, Rng, step},
    palette::{Palette, blend, scale},
};

pub(super) fn draw(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    let folds = Folds::new(rng);
    let (right, bottom) = canvas.extent();
    let (unit, width) = (canvas.unit, canvas.width);
    let zoom = rng.range(1.1, 1.7);
    let line = |row: u32| -> Vec<(f32, f32)> {
        let y = zoom * (row as f32 + 0.5) / unit;
        let at = |it| folds.at(zoom * (it as f32 + 0.5) / unit, y, (0.0, 0.0));
        (0..=width).map(at).collect()
    };
    let mut this = line(0);
    for row in 0..canvas.height {
        // The slope towards the light is what changes until the next pixel across and down.
        let next = line(row + 1);
        for column in 0..width {
            let (value, bend) = this[column as usize];
            let slope = (next[column as usize + 1].0 - value) * 0.45 * unit / zoom;
            let base = palette.at(0.5 + 0.75 * value);
            let tinted = blend(base, palette.colour(2), step(0.1, 0.7, bend.abs()) * 0.45);
            let shaded = scale(tinted, (1.0 - 0.55 * slope).clamp(0.35, 1.7));
            let lit = blend(shaded, palette.colour(4), 0.6 * step(0.35, 1.3, -slope));
            let (x, y) = (column as f32 / unit / right, row as f32 / unit / bottom);
            let (dx, dy) = (x - 0.5, y - 0.5);
            canvas.mix(column, row, scale(lit, 1.0 - 0.7 * (dx * dx + dy * dy)), 1.0);
        }
        this = next;
    }
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
