//! Noise bent by noise bent by noise, lit from the side: folds of cloth, or smoke.

use super::{
    canvas::Canvas,
    noise::{Noise, Rng, step},
    palette::{Palette, blend, scale},
};

pub(super) fn draw(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    let folds = Folds::new(rng);
    let (right, bottom) = canvas.extent();
    let zoom = rng.range(1.1, 1.7);
    canvas.fill(|x, y| {
        let (value, bend) = folds.at(zoom * x, zoom * y, (0.0, 0.0));
        // The slope towards the light, from a small step aside.
        let slope = (folds.at(zoom * x + 0.006, zoom * y + 0.009, (0.0, 0.0)).0 - value) * 60.0;
        let base = palette.at(0.5 + 0.75 * value);
        let tinted = blend(base, palette.colour(2), step(0.1, 0.7, bend.abs()) * 0.45);
        let shaded = scale(tinted, (1.0 - 0.55 * slope).clamp(0.35, 1.7));
        let bright = step(0.35, 1.3, -slope);
        let lit = blend(shaded, palette.colour(4), 0.6 * bright);
        let (dx, dy) = (x / right - 0.5, y / bottom - 0.5);
        scale(lit, 1.0 - 0.7 * (dx * dx + dy * dy))
    });
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
