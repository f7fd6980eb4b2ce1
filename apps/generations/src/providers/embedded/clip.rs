//! Clips: folds that drift in a circle, so that the end is the beginning, and lights that go round.

use std::{borrow::Cow, io};

use gif::{Encoder, Frame, Repeat};

use super::{
    art::Folds,
    drawing::Drawing,
    noise::{Rng, mix, turn},
    palette::{Palette, to_byte},
};

/// Frames of a second.
const RATE: u32 = 10;

/// Colours. Few of them make small files; a GIF has at most 256.
const COLOURS: usize = 40;

/// A shade between two colours is a pattern of both.
const PATTERN: [[u8; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// A light that goes round: its middle, how far from it, how wide, where it begins, which way.
struct Orb {
    middle: (f32, f32),
    away: f32,
    radius: f32,
    phase: f32,
    way: f32,
}

/// Draws a clip as a GIF that repeats for ever.
pub(super) fn gif(drawing: &Drawing) -> io::Result<Vec<u8>> {
    let mut rng = drawing.rng();
    let palette = Palette::choose(drawing, &mut rng);
    let folds = Folds::new(&mut rng);
    let zoom = rng.range(1.0, 1.6);
    let unit = drawing.width.min(drawing.height) as f32;
    let extent = (drawing.width as f32 / unit, drawing.height as f32 / unit);
    let orbs: Vec<Orb> = (0..3 + rng.below(3)).map(|_| orb(&mut rng, extent)).collect();
    let colours: Vec<u8> = (0..COLOURS)
        .flat_map(|it| palette.at(it as f32 / (COLOURS - 1) as f32).map(to_byte))
        .collect();
    let short = |edge: u32| u16::try_from(edge).map_err(io::Error::other);
    let (width, height) = (short(drawing.width)?, short(drawing.height)?);
    let mut bytes = Vec::new();
    let mut encoder =
        Encoder::new(&mut bytes, width, height, &colours).map_err(io::Error::other)?;
    encoder.set_repeat(Repeat::Infinite).map_err(io::Error::other)?;
    let frames = drawing.seconds.unwrap_or(2).clamp(1, 3) * RATE;
    for frame in 0..frames {
        let time = frame as f32 / frames as f32;
        let (dx, dy) = turn(time);
        let drift = (0.22 * dx, 0.22 * dy);
        let field = Field::new(&folds, zoom, extent, drift);
        let colour = |column: u32, row: u32| {
            let (x, y) = (column as f32 / unit, row as f32 / unit);
            let glow: f32 = orbs.iter().map(|it| it.light(x, y, time)).sum();
            let level = 0.38 + field.at(x, y) + 0.75 * glow;
            let pattern = PATTERN[row as usize % 4][column as usize % 4];
            let exact = level.clamp(0.0, 1.0) * (COLOURS - 1) as f32;
            let index = (exact + f32::from(pattern) / 16.0) as u8;
            index.min(COLOURS as u8 - 1)
        };
        let row = |row: u32| (0..drawing.width).map(move |column| colour(column, row));
        let buffer: Vec<u8> = (0..drawing.height).flat_map(row).collect();
        let delay = (100 / RATE) as u16; // in hundredths of a second
        let frame = Frame { width, height, delay, buffer: Cow::Owned(buffer), ..Frame::default() };
        encoder.write_frame(&frame).map_err(io::Error::other)?;
    }
    drop(encoder); // which writes the end
    Ok(bytes)
}

/// The folds of one frame at the points of a grid: they are smooth, so what is between follows.
struct Field {
    columns: usize,
    values: Vec<f32>,
}

/// Points of the grid along the shorter edge.
const GRID: f32 = 128.0;

impl Field {
    fn new(folds: &Folds, zoom: f32, (right, bottom): (f32, f32), drift: (f32, f32)) -> Self {
        let (columns, rows) = ((right * GRID) as usize + 2, (bottom * GRID) as usize + 2);
        let value = |index: usize| {
            let (x, y) = ((index % columns) as f32 / GRID, (index / columns) as f32 / GRID);
            let (value, bend) = folds.at(zoom * x, zoom * y, drift);
            0.62 * value + 0.2 * bend
        };
        Self { columns, values: (0..columns * rows).map(value).collect() }
    }

    fn at(&self, x: f32, y: f32) -> f32 {
        let (x, y) = (x * GRID, y * GRID);
        let start = y as usize * self.columns + x as usize;
        let point = |it: usize| self.values.get(start + it).copied().unwrap_or_default();
        let (dx, dy) = (x - x.floor(), y - y.floor());
        let above = mix(point(0), point(1), dx);
        mix(above, mix(point(self.columns), point(self.columns + 1), dx), dy)
    }
}

fn orb(rng: &mut Rng, (right, bottom): (f32, f32)) -> Orb {
    Orb {
        middle: (right * rng.range(0.2, 0.8), bottom * rng.range(0.2, 0.8)),
        away: rng.range(0.05, 0.25),
        radius: rng.range(0.035, 0.09),
        phase: rng.range(0.0, 1.0),
        way: if rng.below(2) == 0 { 1.0 } else { -1.0 },
    }
}

impl Orb {
    fn light(&self, x: f32, y: f32, time: f32) -> f32 {
        let (dx, dy) = turn(self.phase + self.way * time);
        let (dx, dy) = (x - self.middle.0 - self.away * dx, y - self.middle.1 - self.away * dy);
        let part = (dx * dx + dy * dy) / (self.radius * self.radius);
        1.0 / (1.0 + part * part)
    }
}
