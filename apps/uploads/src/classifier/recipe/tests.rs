use image::{DynamicImage, Rgba, RgbaImage};

use super::*;

fn png(image: &DynamicImage) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn plain(short_side: u32, edge: u32) -> Recipe {
    Recipe { short_side, edge, scale: 1.0, mean: [0.0; 3], std: [1.0; 3] }
}

fn prepared(recipe: &Recipe, image: &DynamicImage) -> Vec<f32> {
    recipe.prepare(&png(image), &ImageLimits::default(), Layout::Planes).unwrap()
}

#[test]
fn each_channel_is_moved_and_scaled_by_its_own_numbers() {
    let image = RgbaImage::from_pixel(4, 4, Rgba([255, 51, 0, 255])).into();
    let recipe =
        Recipe { scale: 1.0 / 255.0, mean: [0.5, 0.1, 0.25], std: [0.5, 0.1, 0.5], ..plain(4, 2) };
    let planes = prepared(&recipe, &image);
    assert_eq!(planes.len(), 12);
    for (index, expected) in [1.0, 1.0, -0.5].iter().enumerate() {
        let plane = &planes[index * 4..index * 4 + 4];
        assert!(plane.iter().all(|it| (it - expected).abs() < 1e-6), "{plane:?}");
    }
}

#[test]
fn the_middle_is_taken_and_the_sides_are_not() {
    let mut image = RgbaImage::from_pixel(400, 100, Rgba([0, 0, 0, 255]));
    for (x, _, pixel) in image.enumerate_pixels_mut() {
        if (140..260).contains(&x) {
            *pixel = Rgba([200, 200, 200, 255]);
        }
    }
    let planes = prepared(&plain(100, 90), &image.into());
    assert!(planes.iter().all(|it| (it - 200.0).abs() < 1.0));
}

#[test]
fn what_is_clear_is_white() {
    let clear = RgbaImage::from_pixel(8, 8, Rgba([0, 0, 0, 0])).into();
    assert!(prepared(&plain(4, 4), &clear).iter().all(|it| (it - 255.0).abs() < 0.5));
    let half = RgbaImage::from_pixel(8, 8, Rgba([0, 0, 0, 128])).into();
    assert!(prepared(&plain(4, 4), &half).iter().all(|it| (it - 127.0).abs() < 1.5));
}
