//! Making images smaller.

use fast_image_resize::{
    FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer, images::Image as Surface,
};
use image::{DynamicImage, RgbaImage};

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
///
/// An image without transparency gets a fourth byte for each pixel meanwhile. One kind of pixel
/// instead of two saves a minute of compilation: each is compiled for 30 precisions.
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
    let has_alpha = image.color().has_alpha();
    // It gives its own bytes away if the image is of that kind already.
    let bytes = image.into_rgba8().into_raw();
    let from = Surface::from_vec_u8(from_width, from_height, bytes, PixelType::U8x4).ok()?;
    let mut to = Surface::new(width, height, PixelType::U8x4);
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom))
        .use_alpha(has_alpha)
        .crop(part.left, part.top, part.width, part.height);
    Resizer::new().resize(&from, &mut to, &options).ok()?;
    let image = RgbaImage::from_raw(width, height, to.into_vec()).map(DynamicImage::ImageRgba8)?;
    Some(if has_alpha { image } else { DynamicImage::ImageRgb8(image.into_rgb8()) })
}
