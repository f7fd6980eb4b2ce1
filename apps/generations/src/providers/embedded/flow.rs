//! Strokes that follow a field, as grass follows the wind.

use super::{
    canvas::Canvas,
    noise::{Noise, Rng, ease, step, turn},
    palette::{Palette, blend, scale},
};

/// Strokes of a square picture.
const STROKES: f32 = 900.0;

pub(super) fn draw(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    let (right, bottom) = canvas.extent();
    let (field, tint) = (Noise::new(rng), Noise::new(rng));
    let (zoom, curl) = (rng.range(0.7, 1.3), rng.range(0.55, 1.0));
    let start = rng.range(0.0, 1.0);
    canvas.fill(|x, y| {
        let down = ease((y / bottom).clamp(0.0, 1.0));
        let ground = blend(palette.colour(0), palette.colour(1), 0.15 + 0.6 * down);
        scale(ground, 0.75 + 0.2 * tint.layers(2.0 * x, 2.0 * y, 2))
    });
    let count = (STROKES * right * bottom) as usize;
    for index in 0..count {
        let near = index as f32 / count as f32;
        let (mut x, mut y) = (rng.range(-0.1, right + 0.1), rng.range(-0.1, bottom + 0.1));
        let hue = 0.3 + 0.6 * near + 0.45 * tint.layers(1.3 * x + 40.0, 1.3 * y, 2);
        let colour = palette.at(hue + rng.range(-0.12, 0.12));
        let radius = rng.range(0.0018, 0.0062) * (0.6 + 0.7 * near);
        let steps = 26 + rng.below(44);
        let pace = 0.45 * radius.max(1.0 / canvas.unit);
        let length = (steps as f32 * 0.0058 / pace) as usize;
        for step_index in 0..length {
            let part = step_index as f32 / length as f32;
            let angle = start + curl * field.layers(zoom * x, zoom * y, 2);
            let (dx, dy) = turn(angle);
            (x, y) = (x + pace * dx, y + pace * dy);
            // Thin at both ends.
            let wide = radius * (4.0 * part * (1.0 - part)).sqrt().max(0.15);
            dab(canvas, (x, y), wide, blend(scale(colour, 0.55), colour, ease(part)));
        }
    }
}

fn dab(canvas: &mut Canvas, place: (f32, f32), radius: f32, colour: [f32; 3]) {
    let edge = 0.7 / canvas.unit;
    canvas.around(place, radius + edge, |dx, dy| {
        let away = (dx * dx + dy * dy).sqrt();
        (colour, 0.35 * (1.0 - step(radius - edge, radius + edge, away)))
    });
}
