//! From the bytes of an image to the numbers that a network is fed with.

use image::{DynamicImage, RgbImage, metadata::Orientation};

use super::{
    decode::{Decoded, decode},
    image_error::ImageError,
    limits::ImageLimits,
    scale::{Part, scale},
};

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
    /// What most networks that know ImageNet were trained with.
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
        let Decoded { outline, image, orientation } = decode(bytes, limits)?;
        let square = self.square(image, orientation);
        let square =
            square.ok_or_else(|| ImageError::broken(outline.format, "it has no middle"))?;
        Ok(self.numbers(&square, layout))
    }

    fn square(&self, image: DynamicImage, orientation: Orientation) -> Option<RgbImage> {
        let (part, width, height) = middle(image.width(), image.height(), self.short_side);
        // It is made small before it is turned: turning copies it.
        let mut image = scale(image, part, width, height)?;
        image.apply_orientation(orientation);
        let left = image.width().checked_sub(self.edge)? / 2;
        let top = image.height().checked_sub(self.edge)? / 2;
        Some(over_white(&image.crop_imm(left, top, self.edge, self.edge)))
    }

    fn numbers(&self, square: &RgbImage, layout: Layout) -> Vec<f32> {
        let number = |value: u8, channel: usize| {
            (f32::from(value) * self.scale - self.mean[channel]) / self.std[channel]
        };
        let pixels = || square.pixels().map(|it| it.0);
        match layout {
            Layout::Pixels => pixels()
                .flat_map(|it| [0, 1, 2].map(|channel| number(it[channel], channel)))
                .collect(),
            Layout::Planes => {
                let plane = |channel| pixels().map(move |it: [u8; 3]| number(it[channel], channel));
                (0..3).flat_map(plane).collect()
            }
        }
    }
}

/// What is scaled, and to which size. All of an image, unless it is so long that most of it would
/// only be cut off again: a strip of 8,000 x 1 pixels would grow to two million x 256.
fn middle(width: u32, height: u32, short_side: u32) -> (Part, u32, u32) {
    let short = width.min(height);
    let used = |len: u32| len.min(short.saturating_mul(4));
    let scaled = |len: u32| {
        let scaled = u64::from(len) * u64::from(short_side) / u64::from(short.max(1));
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    let (used_width, used_height) = (used(width), used(height));
    let part = Part {
        left: f64::from((width - used_width) / 2),
        top: f64::from((height - used_height) / 2),
        width: f64::from(used_width),
        height: f64::from(used_height),
    };
    (part, scaled(used_width), scaled(used_height))
}

fn over_white(image: &DynamicImage) -> RgbImage {
    let Some(clear) = image.as_rgba8() else { return image.to_rgb8() };
    let mut solid = RgbImage::new(clear.width(), clear.height());
    for (from, to) in clear.pixels().zip(solid.pixels_mut()) {
        let alpha = u32::from(from.0[3]);
        for (color, solid) in from.0.iter().zip(&mut to.0) {
            let mixed = (u32::from(*color) * alpha + 255 * (255 - alpha) + 127) / 255;
            *solid = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    solid
}

#[cfg(test)]
mod tests;
