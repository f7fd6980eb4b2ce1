//! Where things are drawn.

use super::palette::{Light, blend, from_byte, to_byte};

/// A picture in the making. Places on it are parts of its shorter edge, from its upper left corner,
/// so that a larger one shows the same.
pub(super) struct Canvas {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) bytes: Vec<u8>,
    /// Pixels of the shorter edge.
    pub(super) unit: f32,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Self {
        let bytes = vec![0; width as usize * height as usize * 3];
        Self { width, height, bytes, unit: width.min(height) as f32 }
    }

    /// How far it goes to the right and down.
    pub(super) fn extent(&self) -> (f32, f32) {
        (self.width as f32 / self.unit, self.height as f32 / self.unit)
    }

    /// Colours every pixel.
    pub(super) fn fill(&mut self, colour: impl Fn(f32, f32) -> Light) {
        let unit = self.unit;
        let rows = self.bytes.chunks_exact_mut(self.width as usize * 3);
        for (row, pixels) in rows.enumerate() {
            let y = (row as f32 + 0.5) / unit;
            for (column, pixel) in pixels.chunks_exact_mut(3).enumerate() {
                let light = colour((column as f32 + 0.5) / unit, y);
                for (byte, light) in pixel.iter_mut().zip(light) {
                    *byte = to_byte(light);
                }
            }
        }
    }

    /// Changes the pixels of a square around a place: by a colour, and by how much of it.
    pub(super) fn around(
        &mut self,
        (x, y): (f32, f32),
        radius: f32,
        colour: impl Fn(f32, f32) -> (Light, f32),
    ) {
        let unit = self.unit;
        let edge = |at: f32, most: u32| (at * unit).floor().clamp(0.0, most as f32) as u32;
        let columns = edge(x - radius, self.width)..edge(x + radius + 2.0 / unit, self.width);
        for row in edge(y - radius, self.height)..edge(y + radius + 2.0 / unit, self.height) {
            for column in columns.clone() {
                let at = ((column as f32 + 0.5) / unit, (row as f32 + 0.5) / unit);
                let (light, part) = colour(at.0 - x, at.1 - y);
                if 0.0 < part {
                    self.mix(column, row, light, part);
                }
            }
        }
    }

    /// Lays a colour over a pixel.
    pub(super) fn mix(&mut self, column: u32, row: u32, light: Light, part: f32) {
        let start = (row as usize * self.width as usize + column as usize) * 3;
        let Some(pixel) = self.bytes.get_mut(start..start + 3) else { return };
        let under = [from_byte(pixel[0]), from_byte(pixel[1]), from_byte(pixel[2])];
        let mixed = blend(under, light, part.min(1.0));
        for (byte, light) in pixel.iter_mut().zip(mixed) {
            *byte = to_byte(light);
        }
    }
}
