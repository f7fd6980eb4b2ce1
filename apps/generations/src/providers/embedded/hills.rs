//! Ridges behind ridges, and a sun or a moon over them.

use super::{
    canvas::Canvas,
    noise::{Noise, Rng, ease, mix, step},
    palette::{Palette, blend, scale},
};

/// Ridges, from the far ones to the near ones.
const RIDGES: usize = 6;

pub(super) fn draw(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    sky(canvas, palette, rng);
    for index in 0..RIDGES {
        ridge(canvas, palette, rng, index as f32 / (RIDGES - 1) as f32);
    }
}

fn sky(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng) {
    let (right, bottom) = canvas.extent();
    let (sun_x, sun_y) = (right * rng.range(0.22, 0.78), bottom * rng.range(0.2, 0.42));
    let radius = rng.range(0.05, 0.11);
    let clouds = Noise::new(rng);
    let is_day = rng.range(0.0, 1.0) < 0.6;
    let top = palette.colour(if is_day { 2 } else { 1 });
    let glow = palette.colour(4);
    canvas.fill(|x, y| {
        let down = (y / bottom).clamp(0.0, 1.0);
        let mut light = if down < 0.45 {
            blend(top, palette.colour(3), ease(down / 0.45))
        } else {
            blend(palette.colour(3), palette.colour(4), ease(((down - 0.45) / 0.3).min(1.0)))
        };
        let (dx, dy) = (x - sun_x, y - sun_y);
        let away = (dx * dx + dy * dy).sqrt();
        let halo = radius / (away + 0.6 * radius);
        light = blend(light, glow, (0.45 * halo * halo).min(0.6));
        let veil = clouds.layers(1.6 * x, 7.0 * y, 4);
        let cloud = step(0.02, 0.5, veil) * (1.0 - ease(down)) * 0.55;
        light = blend(light, glow, cloud);
        let disc = 1.0 - step(radius - 0.003, radius + 0.003, away);
        blend(light, [1.0, 0.98, 0.92], disc * (1.0 - 0.6 * cloud))
    });
}

/// One ridge; `near` is 0 for the farthest and 1 for the nearest.
fn ridge(canvas: &mut Canvas, palette: &Palette, rng: &mut Rng, near: f32) {
    let (_, bottom) = canvas.extent();
    let noise = Noise::new(rng);
    let base = bottom * mix(0.52, 0.93, near) + rng.range(-0.02, 0.02);
    let (height, wide) = (mix(0.2, 0.16, near), mix(2.2, 1.3, near));
    let offset = rng.range(0.0, 100.0);
    let far = blend(palette.colour(3), palette.colour(2), 0.35);
    let colour = if near < 0.5 {
        blend(far, palette.colour(1), near * 2.0)
    } else {
        blend(palette.colour(1), scale(palette.colour(0), 0.7), near * 2.0 - 1.0)
    };
    let mist = blend(colour, palette.colour(4), mix(0.45, 0.06, near));
    let (unit, rows) = (canvas.unit, canvas.height);
    for column in 0..canvas.width {
        let x = (column as f32 + 0.5) / unit;
        let rough = noise.layers(wide * x + offset, 3.7, 6);
        // Folded, so that there are peaks rather than waves.
        let peak = 1.0 - 2.0 * noise.at(0.8 * wide * x + offset, 91.3).abs();
        let top = (base - height * (0.75 * rough + 0.35 * peak)) * unit;
        // Mist lies along the ridge, and not along each of its stones.
        let smooth = noise.layers(wide * x + offset, 3.7, 2);
        let soft = (base - height * (0.75 * smooth + 0.35 * peak)) * unit;
        let first = top.floor().max(0.0);
        for row in first as u32..rows {
            let down = (row as f32 - soft) / unit;
            let cover = (row as f32 + 1.0 - top).clamp(0.0, 1.0);
            let light = blend(colour, mist, step(0.0, 0.22, down));
            canvas.mix(column, row, light, cover);
        }
    }
}
