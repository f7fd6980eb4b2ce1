//! From the bytes of an image to the numbers that a network is fed with.

use steadfast_images::{ImageError, ImageLimits, middle_square};

/// How a network wants its images.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The short side of the image is made so long.
    pub short_side: u32,
    /// And a square of so many pixels is taken from its middle.
    pub edge: u32,
    /// Each value, from 0 to 255, is multiplied by this.
    pub scale: f32,
    /// Then this is taken away from its red, green and blue,
    pub mean: [f32; 3],
    /// and the rest is divided by this.
    pub std: [f32; 3],
}

impl Default for Recipe {
    /// The preparation of most networks that were trained on ImageNet.
    fn default() -> Self {
        Self {
            short_side: 256,
            edge: 224,
            scale: 1.0 / 255.0,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
        }
    }
}

/// Where the channels of a pixel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All of red, then all of green, then all of blue.
    Planes,
    /// Pixel by pixel.
    Pixels,
}

impl Recipe {
    /// The numbers for an image: upright, what is clear in white, the middle of it.
    pub(crate) fn prepare(
        &self,
        bytes: &[u8],
        limits: &ImageLimits,
        layout: Layout,
    ) -> Result<Vec<f32>, ImageError> {
        let square = middle_square(bytes, limits, self.short_side, self.edge)?;
        Ok(self.numbers(&square, layout))
    }

    fn numbers(&self, square: &[[u8; 3]], layout: Layout) -> Vec<f32> {
        let number = |value: u8, channel: usize| {
            (f32::from(value) * self.scale - self.mean[channel]) / self.std[channel]
        };
        match layout {
            Layout::Pixels => square
                .iter()
                .flat_map(|it| [0, 1, 2].map(|channel| number(it[channel], channel)))
                .collect(),
            Layout::Planes => {
                let plane =
                    |channel: usize| square.iter().map(move |it| number(it[channel], channel));
                (0..3).flat_map(plane).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
