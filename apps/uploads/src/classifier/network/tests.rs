use steadfast_resnet::{Attribute, OnnxFile};

use super::*;

/// A network that answers with the mean of each channel, times the factors, and a fixed fourth.
pub(crate) fn means(edge: usize, layout: Layout, factors: [f32; 3], is_last: bool) -> Vec<u8> {
    let mut file = OnnxFile::new("means");
    let input = match layout {
        Layout::Planes => {
            file.input("image", &[1, 3, edge, edge]);
            "image"
        }
        Layout::Pixels => {
            file.input("image", &[1, edge, edge, 3]);
            let order = [("perm", Attribute::Ints(&[0, 3, 1, 2]))];
            file.node("Transpose", "planes", &["image"], &order);
            "planes"
        }
    };
    file.node("GlobalAveragePool", "means", &[input], &[]);
    file.node("Flatten", "flat", &["means"], &[("axis", Attribute::Int(1))]);
    let [red, green, blue] = factors;
    let kernel = [red, 0.0, 0.0, 0.0, 0.0, green, 0.0, 0.0, 0.0, 0.0, blue, 0.0];
    file.tensor("kernel", &[3, 4], &kernel);
    file.tensor("bias", &[4], &[0.0, 0.0, 0.0, 0.5]);
    file.node("Gemm", "scores", &["flat", "kernel", "bias"], &[]);
    if is_last {
        file.output("scores", &[1, 4]);
    } else {
        file.node("Softmax", "likely", &["scores"], &[("axis", Attribute::Int(-1))]);
        file.output("likely", &[1, 4]);
    }
    file.finish()
}

pub(crate) fn names() -> Vec<String> {
    ["red_thing", "green", "blue", "none"].map(str::to_owned).to_vec()
}

fn recipe() -> Recipe {
    Recipe { short_side: 8, edge: 8, scale: 1.0 / 255.0, mean: [0.0; 3], std: [1.0; 3] }
}

fn image(color: [u8; 3]) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(30, 20, image::Rgb(color));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn classify(network: Vec<u8>, color: [u8; 3]) -> Vec<Label> {
    let network = Network::load(network, recipe(), names()).unwrap();
    network.classify(&image(color), &ImageLimits::default()).unwrap()
}

#[test]
fn channels_go_where_the_network_wants_them_and_scores_are_likelihoods() {
    for layout in [Layout::Planes, Layout::Pixels] {
        for is_last in [true, false] {
            let network = means(8, layout, [4.0; 3], is_last);
            let found = classify(network, [0, 255, 51]);
            let order: Vec<&str> = found.iter().map(|it| &*it.label).collect();
            assert_eq!(order, ["GREEN", "BLUE", "NONE", "RED THING"]);
            let sum: f64 = found.iter().map(|it| it.score).sum();
            assert!((sum - 1.0).abs() < 1e-6);
            let all = 4_f64.exp() + 0.8_f64.exp() + 0.5_f64.exp() + 1.0;
            assert!((found[0].score - 4_f64.exp() / all).abs() < 1e-6, "{found:?}");
        }
    }
}

#[test]
fn equal_scores_come_in_the_order_of_the_labels() {
    let found = classify(means(8, Layout::Planes, [0.0; 3], true), [9, 9, 9]);
    let order: Vec<&str> = found.iter().map(|it| &*it.label).collect();
    assert_eq!(order, ["NONE", "RED THING", "GREEN", "BLUE"]);
}

#[test]
fn an_answer_that_is_no_number_is_not_passed_on() {
    let network = means(8, Layout::Planes, [f32::NAN, 1.0, 1.0], true);
    let network = Network::load(network, recipe(), names()).unwrap();
    let error = network.classify(&image([1, 2, 3]), &ImageLimits::default()).unwrap_err();
    assert_eq!(error.code(), "classifier_answer_invalid");
}

#[test]
fn a_network_that_does_not_fit_is_refused_when_it_is_loaded() {
    let network = || means(8, Layout::Planes, [1.0; 3], true);
    let load = |bytes, recipe, labels| Network::load(bytes, recipe, labels).err().unwrap();
    assert!(load(network(), recipe(), names()[..3].to_vec()).contains("3 labels"));
    assert!(load(b"not a network".to_vec(), recipe(), names()).len() > 3);
    let small = Recipe { short_side: 4, ..recipe() };
    assert!(load(network(), small, names()).contains("short side"));

    let mut flat = OnnxFile::new("flat");
    flat.input("numbers", &[1, 3]);
    flat.node("Relu", "same", &["numbers"], &[]);
    flat.output("same", &[1, 3]);
    assert!(load(flat.finish(), recipe(), names()).contains("three channels"));
}
