//! Any classifier in an ONNX file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use steadfast_images::{ImageLimits, Pool};
use steadfast_resnet::parse_labels;

use super::{
    Classifier, ClassifyError, Label,
    local::{Load, Local},
    network::Network,
    recipe::Recipe,
};

/// Which network, and what it is fed with.
#[derive(Clone, Debug, PartialEq)]
pub struct OnnxOptions {
    /// The network: one image with three channels goes in, one score for each class comes out, as
    /// likelihoods or before they are made to be.
    pub file: PathBuf,
    /// The names of the classes: a JSON list, a JSON object by number, or one in each line.
    pub labels: PathBuf,
    /// The preparation that it was trained with.
    pub recipe: Recipe,
}

/// A network from an ONNX file. Clones share it.
#[derive(Clone)]
pub struct Onnx {
    local: Local<OnnxOptions>,
}

impl Onnx {
    /// A classifier with a network from a file, which is read when it is needed for the first time.
    pub fn new(options: OnnxOptions, limits: ImageLimits, pool: Pool) -> Self {
        Self { local: Local::new(options, limits, pool) }
    }

    /// Reads the files and tries the network once, so that a mistake shows at the start. It keeps a
    /// thread busy for a while.
    pub fn check(&self) -> Result<(), ClassifyError> {
        self.local.network().map(drop)
    }
}

impl Load for OnnxOptions {
    fn load(&self) -> Result<Network, ClassifyError> {
        let Self { file, labels, recipe } = self;
        let names = parse_labels(&read(labels)?).map_err(|reason| not_ready(labels, &reason))?;
        let loaded = Network::load(read(file)?, recipe.clone(), names);
        loaded.map_err(|reason| not_ready(file, &reason))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, ClassifyError> {
    fs::read(file).map_err(|error| not_ready(file, &error.to_string()))
}

fn not_ready(file: &Path, reason: &str) -> ClassifyError {
    let file = file.display();
    let message = format!("{file} cannot be used: {reason}; mend it or configure another");
    ClassifyError::NotReady { message }
}

#[async_trait]
impl Classifier for Onnx {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        self.local.classify(image).await
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        self.local.ready().await
    }

    fn name(&self) -> String {
        let file = self.local.source.file.file_stem().unwrap_or_default();
        format!("{} (ONNX)", file.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::{
        network::tests::{means, names},
        recipe::Layout,
    };

    fn image() -> Vec<u8> {
        let image = image::RgbImage::from_pixel(40, 30, image::Rgb([0, 0, 250]));
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::WebP).unwrap();
        bytes.into_inner()
    }

    #[tokio::test]
    async fn a_network_from_a_file_classifies_and_is_picked_up_when_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let options = OnnxOptions {
            file: folder.path().join("colors.onnx"),
            labels: folder.path().join("labels.txt"),
            recipe: Recipe { short_side: 20, edge: 16, ..Recipe::default() },
        };
        let pool = Pool::new("test", 1).unwrap();
        let onnx = Onnx::new(options, ImageLimits::default(), pool);
        assert_eq!(onnx.name(), "colors (ONNX)");
        let missing = onnx.classify(&image()).await.unwrap_err();
        assert_eq!(missing.code(), "model_not_ready");
        assert!(missing.to_string().contains("labels.txt"), "{missing}");

        fs::write(folder.path().join("labels.txt"), names().join("\n")).unwrap();
        fs::write(folder.path().join("colors.onnx"), "no network").unwrap();
        assert!(onnx.check().unwrap_err().to_string().contains("colors.onnx"));

        let network = means(16, Layout::Planes, [1.0; 3], true);
        fs::write(folder.path().join("colors.onnx"), network).unwrap();
        let labels = onnx.classify(&image()).await.unwrap();
        assert_eq!(labels[0].label, "BLUE");
        assert_eq!(onnx.classify(&image()).await.unwrap(), labels);
        let broken = onnx.classify(b"GIF89a").await.unwrap_err();
        assert_eq!(broken.code(), "image_truncated");
    }
}
