//! Making images smaller.

use fast_image_resize::{
    FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer, images::Image as Surface,
};
use image::{DynamicImage, RgbImage, RgbaImage};

/// A part of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Part {
    /// All of an image.
    pub(crate) fn whole(image: &DynamicImage) -> Self {
        let (width, height) = (f64::from(image.width()), f64::from(image.height()));
        Self { left: 0.0, top: 0.0, width, height }
    }
}

/// A part of an image in another size: bicubic, with every pixel of the part counted. `None` if the
/// part is not inside of the image, or there is nothing to make.
pub(crate) fn scale(
    image: DynamicImage,
    part: Part,
    width: u32,
    height: u32,
) -> Option<DynamicImage> {
    let (from_width, from_height) = (image.width(), image.height());
    if part == Part::whole(&image) && (width, height) == (from_width, from_height) {
        return Some(image);
    }
    // Both give their own bytes away if the image is of that kind already.
    let (kind, bytes) = match image.color().has_alpha() {
        true => (PixelType::U8x4, image.into_rgba8().into_raw()),
        false => (PixelType::U8x3, image.into_rgb8().into_raw()),
    };
    let from = Surface::from_vec_u8(from_width, from_height, bytes, kind).ok()?;
    let mut to = Surface::new(width, height, kind);
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom))
        .crop(part.left, part.top, part.width, part.height);
    Resizer::new().resize(&from, &mut to, &options).ok()?;
    let bytes = to.into_vec();
    if kind == PixelType::U8x4 {
        RgbaImage::from_raw(width, height, bytes).map(DynamicImage::ImageRgba8)
    } else {
        RgbImage::from_raw(width, height, bytes).map(DynamicImage::ImageRgb8)
    }
}
