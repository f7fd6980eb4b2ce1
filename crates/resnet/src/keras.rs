//! Networks of Keras as its export for browsers writes them: layers in JSON, weights beside it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The layers of a network and where their weights are.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KerasModel {
    model_topology: Topology,
    weights_manifest: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Topology {
    model_config: ModelConfig,
}

#[derive(Debug, Deserialize)]
struct ModelConfig {
    config: Config,
}

#[derive(Debug, Deserialize)]
struct Config {
    layers: Vec<Layer>,
    output_layers: Vec<(String, u32, u32)>,
}

/// One layer.
#[derive(Debug, Deserialize)]
pub(crate) struct Layer {
    pub(crate) class_name: String,
    pub(crate) name: String,
    pub(crate) config: Value,
    inbound_nodes: Value,
}

#[derive(Debug, Deserialize)]
struct Group {
    paths: Vec<String>,
    weights: Vec<Weight>,
}

#[derive(Debug, Deserialize)]
struct Weight {
    name: String,
    shape: Vec<usize>,
    dtype: String,
    quantization: Option<Value>,
}

/// Weights of a layer.
#[derive(Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl KerasModel {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| format!("model.json: {error}"))
    }

    /// The files with the weights, in their order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.weights_manifest.iter().flat_map(|it| &it.paths).map(String::as_str)
    }

    /// The layers; each comes after those it takes from.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.model_topology.model_config.config.layers
    }

    /// The layer whose values are the answer.
    pub(crate) fn output(&self) -> Result<&str, String> {
        match &*self.model_topology.model_config.config.output_layers {
            [(name, 0, 0)] => Ok(name),
            _ => Err("it must have one output".into()),
        }
    }

    /// The weights by name, from the files joined in their order.
    pub(crate) fn weights<'a>(&self, bytes: &'a [u8]) -> Result<Weights<'a>, String> {
        let mut found = BTreeMap::new();
        let mut rest = bytes;
        for weight in self.weights_manifest.iter().flat_map(|it| &it.weights) {
            if weight.dtype != "float32" || weight.quantization.is_some() {
                return Err(format!("{}: only plain float32 weights are known", weight.name));
            }
            let count = weight.shape.iter().try_fold(1_usize, |it, side| it.checked_mul(*side));
            let len = count.and_then(|it| it.checked_mul(4));
            let split = len.and_then(|it| rest.split_at_checked(it));
            let (own, behind) =
                split.ok_or_else(|| format!("{}: weights end early", weight.name))?;
            found.insert(weight.name.clone(), (weight.shape.clone(), own));
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes of weights belong to no layer", rest.len()));
        }
        Ok(Weights(found))
    }
}

impl Layer {
    /// The names of the layers it takes from.
    pub(crate) fn inputs(&self) -> Vec<&str> {
        let first = self.inbound_nodes.get(0).and_then(Value::as_array);
        let names = first.into_iter().flatten().filter_map(|it| it.get(0)?.as_str());
        names.collect()
    }

    /// The only layer it takes from.
    pub(crate) fn input(&self) -> Result<&str, String> {
        match *self.inputs() {
            [input] => Ok(input),
            _ => Err(self.unknown("inputs")),
        }
    }

    /// A text of its configuration.
    pub(crate) fn text(&self, field: &str) -> Result<&str, String> {
        self.config.get(field).and_then(Value::as_str).ok_or_else(|| self.unknown(field))
    }

    /// A number of its configuration.
    pub(crate) fn number(&self, field: &str) -> Result<f64, String> {
        self.config.get(field).and_then(Value::as_f64).ok_or_else(|| self.unknown(field))
    }

    /// Two whole numbers of its configuration.
    pub(crate) fn pair(&self, field: &str) -> Result<[i64; 2], String> {
        let value = self.config.get(field).cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|_| self.unknown(field))
    }

    /// Refuses a layer that is set up in a way the conversion does not know.
    pub(crate) fn unknown(&self, field: &str) -> String {
        format!("layer {} ({}): unknown {field}", self.name, self.class_name)
    }
}

/// All weights of a network.
pub(crate) struct Weights<'a>(BTreeMap<String, (Vec<usize>, &'a [u8])>);

impl Weights<'_> {
    /// The weights of a layer under one name: `conv1`, `kernel`.
    pub(crate) fn get(&self, layer: &str, name: &str) -> Result<Tensor, String> {
        let found = self.0.get(&format!("{layer}/{name}"));
        let (shape, bytes) = found.ok_or_else(|| format!("layer {layer}: no {name}"))?;
        let (numbers, _) = bytes.as_chunks::<4>();
        let values = numbers.iter().map(|it| f32::from_le_bytes(*it)).collect();
        Ok(Tensor { shape: shape.clone(), values })
    }
}
