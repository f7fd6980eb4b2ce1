use rten::{Model, ModelOptions, ValueView};
use serde_json::json;

use super::{
    super::{convert::convert, keras::KerasModel},
    package::tiny,
};

const EDGE: usize = 13;

/// Runs a network as the classifier does.
fn run(network: &Model, planes: &[f32]) -> Vec<f32> {
    let input = ValueView::from_shape([1, 3, EDGE, EDGE], planes).unwrap();
    let inputs = vec![(network.input_ids()[0], input.into())];
    let [answer] = network.run_n(inputs, [network.output_ids()[0]], None).unwrap();
    answer.into_shape_vec::<f32, 2>().unwrap().1
}

#[test]
fn a_converted_network_answers_as_keras_defines_it() {
    let tiny = tiny(EDGE);
    let keras = KerasModel::parse(tiny.model.to_string().as_bytes()).unwrap();
    let bytes = convert(&keras, &tiny.weights).unwrap();
    let network = ModelOptions::with_all_ops().load(bytes).unwrap();
    for seed in 1..6_u16 {
        let value = |it: usize| f32::from(u16::try_from(it).unwrap() * seed % 97) / 20.0 - 2.0;
        let planes: Vec<f32> = (0..3 * EDGE * EDGE).map(value).collect();
        let expected = tiny.reference.answer(EDGE, &planes);
        let actual = run(&network, &planes);
        assert_eq!(actual.len(), 6);
        for (actual, expected) in actual.iter().zip(&expected) {
            assert!((f64::from(*actual) - expected).abs() < 1e-5, "{actual} and {expected}");
        }
        // Red and blue make a difference, so that their exchange is checked at all.
        let (red, rest) = planes.split_at(EDGE * EDGE);
        let (green, blue) = rest.split_at(EDGE * EDGE);
        let exchanged = tiny.reference.answer(EDGE, &[blue, green, red].concat());
        assert!((exchanged[0] - expected[0]).abs() > 1e-4);
    }
}

#[test]
fn the_conversion_gives_the_same_bytes_each_time() {
    let tiny = tiny(EDGE);
    let keras = KerasModel::parse(tiny.model.to_string().as_bytes()).unwrap();
    let first = convert(&keras, &tiny.weights).unwrap();
    assert_eq!(convert(&keras, &tiny.weights).unwrap(), first);
}

#[test]
fn what_the_conversion_does_not_know_is_refused_by_name() {
    let tiny = tiny(EDGE);
    let layer = |index: usize, field: &str, value: serde_json::Value| {
        let mut model = tiny.model.clone();
        let layers = &mut model["modelTopology"]["model_config"]["config"]["layers"];
        layers[index]["config"][field] = value;
        model
    };
    let mut other = tiny.model.clone();
    other["modelTopology"]["model_config"]["config"]["layers"][6]["class_name"] = json!("LSTM");
    for (model, name) in [
        (layer(2, "dilation_rate", json!([2, 2])), "conv_1"),
        (layer(2, "padding", json!("same")), "conv_1"),
        (layer(2, "data_format", json!("channels_first")), "conv_1"),
        (layer(4, "activation", json!("swish")), "relu_1"),
        (layer(4, "activation", json!("linear")), "pool"),
        (other, "LSTM"),
    ] {
        let keras = KerasModel::parse(model.to_string().as_bytes()).unwrap();
        let error = convert(&keras, &tiny.weights).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn weights_that_do_not_fit_the_layers_are_refused() {
    let tiny = tiny(EDGE);
    let keras = KerasModel::parse(tiny.model.to_string().as_bytes()).unwrap();
    let short = &tiny.weights[..tiny.weights.len() - 4];
    assert!(convert(&keras, short).unwrap_err().contains("end early"));
    let long = [&tiny.weights[..], &[0; 4]].concat();
    assert!(convert(&keras, &long).unwrap_err().contains("belong to no layer"));
}
