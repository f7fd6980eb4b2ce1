//! Real weights and real photos, if they are there: `tests/models install` says where, and
//! `STEADFAST_TEST_MODELS` tells it to these tests.

use std::path::{Path, PathBuf};

use steadfast_images::{ImageLimits, Pool, inspect, thumbnail};
use steadfast_uploads::classifier::{Classifier, Embedded, Label, ModelState};

/// The folder with the model; `None` and a line that says so if there is none.
fn models(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("STEADFAST_TEST_MODELS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: {test}, STEADFAST_TEST_MODELS names no folder");
    }
    folder
}

/// A photo; `None` and a line that says so if it could not be had.
fn photo(models: &Path, name: &str) -> Option<Vec<u8>> {
    let photo = std::fs::read(models.join("photos").join(name));
    if photo.is_err() {
        eprintln!("skipped: {name} is not in {}", models.display());
    }
    photo.ok()
}

fn embedded(models: &Path) -> Embedded {
    let pool = Pool::for_this_machine("classify").expect("threads start");
    Embedded::new(models, ImageLimits::default(), pool)
}

#[tokio::test]
async fn photos_are_named_for_what_is_on_them() {
    let Some(models) = models("photos_are_named_for_what_is_on_them") else { return };
    let embedded = embedded(&models);
    assert_eq!(embedded.progress(), ModelState::Ready);
    for (name, label, score) in [
        ("koala.jpg", "KOALA", 0.99),
        ("rabbit.jpg", "ANGORA", 0.8),
        ("coffee.png", "ESPRESSO", 0.9),
    ] {
        let Some(photo) = photo(&models, name) else { continue };
        let labels = embedded.classify(&photo).await.expect("it is classified");
        eprintln!("{name}: {labels:?}");
        assert_eq!(labels.len(), 5);
        assert!(labels.is_sorted_by(|a, b| a.score >= b.score));
        assert_eq!(labels[0].label, label);
        assert!(score < labels[0].score, "{labels:?}");
        assert!(labels.iter().map(|it| it.score).sum::<f64>() < 1.001);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_answer_as_one_alone_bit_for_bit() {
    let Some(models) = models("many_at_once_answer_as_one_alone_bit_for_bit") else { return };
    let Some(koala) = photo(&models, "koala.jpg") else { return };
    let alone = embedded(&models).classify(&koala).await.expect("it is classified");
    let other = embedded(&models);
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (other, koala) = (other.clone(), koala.clone());
        tasks.push(tokio::spawn(async move { other.classify(&koala).await }));
    }
    for task in tasks {
        let labels: Vec<Label> = task.await.expect("it ends").expect("it is classified");
        assert_eq!(labels, alone);
    }
}

#[test]
fn photos_pass_inspection_and_get_small() {
    let Some(models) = models("photos_pass_inspection_and_get_small") else { return };
    let limits = ImageLimits::default();
    for name in ["koala.jpg", "rabbit.jpg", "coffee.png"] {
        let Some(photo) = photo(&models, name) else { continue };
        let inspected = inspect(&photo, &limits).expect("it is an image");
        let small = thumbnail(&photo, &limits, 320).expect("it has a thumbnail");
        eprintln!("{name}: {inspected:?}, {} bytes, {} small", photo.len(), small.len());
        let small = inspect(&small, &limits).expect("a thumbnail is an image");
        assert_eq!(small.width.max(small.height), 320.min(inspected.width.max(inspected.height)));
    }
}
