//! Discs and rings that float over each other, each with its shadow.

use super::{
    canvas::Canvas,
    noise::{Noise, Rng, ease, step, turn},
    palette::{Palette, blend, scale},
};

pub(super) fn draw(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    let (right, bottom) = canvas.extent();
    let noise = Noise::new(rng);
    let lean = rng.range(-0.3, 0.3);
    let is_dark = rng.range(0.0, 1.0) < 0.55;
    let (from, to) = if is_dark { (0, 1) } else { (4, 3) };
    canvas.fill(|x, y| {
        let down = (y / bottom + lean * (x / right - 0.5)).clamp(0.0, 1.0);
        let soft = 0.12 * noise.layers(1.4 * x, 1.4 * y, 3);
        blend(palette.colour(from), palette.colour(to), ease((down + soft).clamp(0.0, 1.0)))
    });
    let count = 26 + rng.below(14);
    for index in 0..count {
        // Large ones lie behind, small ones in front.
        let near = index as f32 / count as f32;
        let radius = (0.26 - 0.235 * near.sqrt()) * rng.range(0.6, 1.25);
        let place = (right * rng.range(0.0, 1.0), bottom * rng.range(0.0, 1.0));
        let colour = 1 + rng.below(4);
        let next = (colour + 1).min(4);
        let shades = (palette.colour(colour), palette.colour(next));
        let light = turn(rng.range(0.0, 1.0));
        let is_ring = rng.below(4) == 0;
        shadow(canvas, place, radius, near);
        disc(canvas, place, radius, shades, light, is_ring);
    }
}

fn shadow(canvas: &mut Canvas, (x, y): (f32, f32), radius: f32, near: f32) {
    let (fall, soft) = (0.01 + 0.03 * near, 0.5 * radius);
    canvas.around((x + fall, y + 1.6 * fall), radius + soft, |dx, dy| {
        let away = (dx * dx + dy * dy).sqrt();
        ([0.0, 0.0, 0.005], 0.3 * (1.0 - step(radius - soft, radius + soft, away)))
    });
}

fn disc(
    canvas: &mut Canvas,
    place: (f32, f32),
    radius: f32,
    (dark, bright): ([f32; 3], [f32; 3]),
    light: (f32, f32),
    is_ring: bool,
) {
    let edge = 1.0 / canvas.unit;
    canvas.around(place, radius, |dx, dy| {
        let away = (dx * dx + dy * dy).sqrt();
        let inside = 1.0 - step(radius - edge, radius + edge, away);
        let hole = 0.62 * radius;
        let open = if is_ring { step(hole - edge, hole + edge, away) } else { 1.0 };
        let towards = (dx * light.0 + dy * light.1) / radius;
        let shade = blend(dark, bright, ease((0.5 + 0.5 * towards).clamp(0.0, 1.0)));
        let rim = 1.0 - 0.25 * step(0.7 * radius, radius, away);
        (scale(shade, rim), 0.9 * inside * open)
    });
}
