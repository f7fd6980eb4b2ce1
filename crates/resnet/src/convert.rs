//! From a network of Keras to an ONNX file.
//!
//! Values go from pixel by pixel to plane by plane, the normalisation behind a convolution goes
//! into its weights, and so does the exchange of red and blue that the network was trained with.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    fold::{Convolution, dense, normalised},
    keras::{KerasModel, Layer, Weights},
    onnx_file::{Attribute, OnnxFile},
};

/// The name of what goes in.
const INPUT: &str = "image";

/// Converts a network. `joined` are its weights, all files joined in their order.
pub(crate) fn convert(keras: &KerasModel, joined: &[u8]) -> Result<Vec<u8>, String> {
    let weights = keras.weights(joined)?;
    let file = OnnxFile::new("classifier");
    let mut conversion = Conversion { keras, weights, file, made: BTreeMap::new(), classes: 0 };
    for layer in keras.layers() {
        conversion.layer(layer)?;
    }
    let output = keras.output()?;
    let name = conversion.plain(output)?;
    let Conversion { mut file, classes, .. } = conversion;
    file.output(&name, &[1, classes]);
    Ok(file.finish())
}

/// The output of a layer.
#[derive(Clone)]
struct Made {
    /// Its name in the ONNX file.
    name: String,
    /// Zeros that are to be put around it: top, left, bottom, right.
    pads: [i64; 4],
    /// No value is below zero.
    is_positive: bool,
    /// It is the image itself.
    is_image: bool,
}

impl Made {
    fn new(name: &str) -> Self {
        Self { name: name.into(), pads: [0; 4], is_positive: false, is_image: false }
    }
}

struct Conversion<'a> {
    keras: &'a KerasModel,
    weights: Weights<'a>,
    file: OnnxFile,
    made: BTreeMap<&'a str, Made>,
    classes: usize,
}

impl<'a> Conversion<'a> {
    fn layer(&mut self, layer: &'a Layer) -> Result<(), String> {
        let name = &*layer.name;
        if layer.config.get("data_format").is_some_and(|it| it != "channels_last") {
            return Err(layer.unknown("data_format"));
        }
        let made = match &*layer.class_name {
            "InputLayer" => self.image(layer)?,
            "ZeroPadding2D" => Made { pads: padding(layer)?, ..self.plain_made(layer.input()?)? },
            "Conv2D" => self.convolution(layer)?,
            // Its convolution has it inside.
            "BatchNormalization" => Made::new(&self.plain(layer.input()?)?),
            "Activation" => {
                let input = self.plain(layer.input()?)?;
                self.activation(layer, &input)?
            }
            "MaxPooling2D" => self.pooling(layer)?,
            "Add" => {
                let inputs = layer.inputs();
                let inputs: Result<Vec<_>, _> = inputs.iter().map(|it| self.plain(it)).collect();
                let [a, b] = &*inputs? else { return Err(layer.unknown("inputs")) };
                self.file.node("Add", name, &[a, b], &[]);
                Made::new(name)
            }
            "GlobalAveragePooling2D" => {
                let input = self.plain(layer.input()?)?;
                let means = format!("{name}/means");
                self.file.node("GlobalAveragePool", &means, &[&input], &[]);
                self.file.node("Flatten", name, &[&means], &[("axis", Attribute::Int(1))]);
                Made::new(name)
            }
            "Dense" => self.dense(layer)?,
            _ => return Err(layer.unknown("class")),
        };
        self.made.insert(name, made);
        Ok(())
    }

    fn made(&self, layer: &str) -> Result<Made, String> {
        self.made.get(layer).cloned().ok_or_else(|| format!("layer {layer} comes too late"))
    }

    /// The output of a layer, for one that cannot pad it.
    fn plain_made(&self, layer: &str) -> Result<Made, String> {
        let made = self.made(layer)?;
        match made.pads {
            [0, 0, 0, 0] => Ok(made),
            _ => Err(format!("layer {layer}: its padding goes to an unknown place")),
        }
    }

    fn plain(&self, layer: &str) -> Result<String, String> {
        Ok(self.plain_made(layer)?.name)
    }

    fn image(&mut self, layer: &Layer) -> Result<Made, String> {
        let shape = layer.config.get("batch_input_shape").cloned().unwrap_or_default();
        let shape: (Value, usize, usize, usize) =
            serde_json::from_value(shape).map_err(|_| layer.unknown("batch_input_shape"))?;
        let (_, height, width, channels) = shape;
        self.file.input(INPUT, &[1, channels, height, width]);
        Ok(Made { is_image: true, ..Made::new(INPUT) })
    }

    fn convolution(&mut self, layer: &Layer) -> Result<Made, String> {
        let input = self.made(layer.input()?)?;
        if layer.pair("dilation_rate")? != [1, 1] {
            return Err(layer.unknown("dilation_rate"));
        }
        let strides = layer.pair("strides")?;
        let mut folded = Convolution::read(layer, &self.weights)?;
        if let Some(norm) = self.normalisation_behind(layer)? {
            folded = normalised(folded, norm, &self.weights)?;
        }
        if input.is_image {
            folded.exchange_red_and_blue();
        }
        let pads = match (layer.text("padding")?, strides, input.pads) {
            ("valid", _, pads) => pads,
            ("same", [1, 1], [0, 0, 0, 0]) => {
                folded.same_padding().ok_or_else(|| layer.unknown("padding"))?
            }
            _ => return Err(layer.unknown("padding")),
        };
        let name = &*layer.name;
        let (kernel, bias) = (format!("{name}/kernel"), format!("{name}/bias"));
        self.file.tensor(&kernel, &folded.shape, &folded.kernel);
        self.file.tensor(&bias, &[folded.bias.len()], &folded.bias);
        let attributes = [
            ("strides", Attribute::Ints(&strides)),
            ("pads", Attribute::Ints(&pads)),
            ("dilations", Attribute::Ints(&[1, 1])), // rten has no default for it
        ];
        self.file.node("Conv", name, &[&input.name, &kernel, &bias], &attributes);
        self.activation(layer, name)
    }

    /// The normalisation that alone takes what a convolution makes.
    fn normalisation_behind(&self, layer: &Layer) -> Result<Option<&'a Layer>, String> {
        let layers = self.keras.layers().iter();
        let takers: Vec<&Layer> = layers.filter(|it| it.inputs().contains(&&*layer.name)).collect();
        let is_norm = |it: &&Layer| it.class_name == "BatchNormalization";
        match *takers {
            [norm] if is_norm(&norm) => match layer.text("activation")? {
                "linear" => Ok(Some(norm)),
                _ => Err(layer.unknown("activation")),
            },
            _ if takers.iter().any(is_norm) => Err(layer.unknown("normalisation")),
            _ => Ok(None),
        }
    }

    fn pooling(&mut self, layer: &Layer) -> Result<Made, String> {
        let input = self.made(layer.input()?)?;
        // Zeros around it count in Keras and not in ONNX: the same only where nothing is below.
        let is_same = input.pads == [0; 4] || input.is_positive;
        if layer.text("padding")? != "valid" || !is_same {
            return Err(layer.unknown("padding"));
        }
        let (size, strides) = (layer.pair("pool_size")?, layer.pair("strides")?);
        let attributes = [
            ("kernel_shape", Attribute::Ints(&size)),
            ("strides", Attribute::Ints(&strides)),
            ("pads", Attribute::Ints(&input.pads)),
        ];
        self.file.node("MaxPool", &layer.name, &[&input.name], &attributes);
        Ok(Made { is_positive: input.is_positive, ..Made::new(&layer.name) })
    }

    fn dense(&mut self, layer: &Layer) -> Result<Made, String> {
        let input = self.plain(layer.input()?)?;
        let (kernel, bias) = dense(layer, &self.weights)?;
        let name = &*layer.name;
        let (kernel_name, bias_name) = (format!("{name}/kernel"), format!("{name}/bias"));
        self.file.tensor(&kernel_name, &kernel.shape, &kernel.values);
        self.file.tensor(&bias_name, &bias.shape, &bias.values);
        self.file.node("Gemm", name, &[&input, &kernel_name, &bias_name], &[]);
        self.classes = bias.values.len();
        self.activation(layer, name)
    }

    /// The activation of a layer.
    fn activation(&mut self, layer: &Layer, input: &str) -> Result<Made, String> {
        let kind = layer.text("activation")?;
        let name = format!("{}/{kind}", layer.name);
        match kind {
            "linear" => return Ok(Made::new(input)),
            "relu" => self.file.node("Relu", &name, &[input], &[]),
            "softmax" => {
                self.file.node("Softmax", &name, &[input], &[("axis", Attribute::Int(-1))]);
            }
            _ => return Err(layer.unknown("activation")),
        }
        Ok(Made { is_positive: true, ..Made::new(&name) })
    }
}

/// Zeros around an image: top, left, bottom, right.
fn padding(layer: &Layer) -> Result<[i64; 4], String> {
    let padding = layer.config.get("padding").cloned().unwrap_or_default();
    let sides: Result<[[i64; 2]; 2], _> = serde_json::from_value(padding);
    let [[top, bottom], [left, right]] = sides.map_err(|_| layer.unknown("padding"))?;
    Ok([top, left, bottom, right])
}
