//! Real photos and real weights, if they are there: `tests/models install` says where.

use std::path::PathBuf;

use crate::{
    browser::Browser,
    classifier::{drop_file, upload},
    harness::Server,
};

/// The folder with the model and photos; `None` and a line that says so if there is none.
fn models(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("STEADFAST_TEST_MODELS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: {test}, STEADFAST_TEST_MODELS names no folder");
    }
    folder
}

const PHOTOS: [(&str, &str); 3] =
    [("koala.jpg", "KOALA"), ("rabbit.jpg", "ANGORA"), ("coffee.png", "ESPRESSO")];

fn server(models: &std::path::Path) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = models.to_str().expect("a path in UTF-8");
    Server::with(folder, &["--uploads-models", models, "--uploads-models-pull", "never"])
}

#[test]
fn photos_get_the_labels_that_the_model_is_known_to_give() {
    let test = "photos_get_the_labels_that_the_model_is_known_to_give";
    let Some(models) = models(test) else { return };
    let server = server(&models);
    for (photo, label) in PHOTOS {
        let Ok(bytes) = std::fs::read(models.join("photos").join(photo)) else {
            eprintln!("skipped: {photo} of {test}, it is not there");
            continue;
        };
        assert_eq!(upload(&server, "acme", photo, &bytes).status, 202);
        let path = format!("/api/organizations/acme/uploads/{photo}");
        let shown = server.json_until(&path, |it| it["status"] == "classified");
        assert_eq!(shown["classificationLabel"], label, "{shown}");
        assert_eq!(shown["topFive"].as_array().map(Vec::len), Some(5));
    }
}

#[test]
fn three_photos_dropped_into_a_browser_get_their_labels_without_reload() {
    let test = "three_photos_dropped_into_a_browser_get_their_labels_without_reload";
    let (Some(models), Some(browser)) = (models(test), Browser::start()) else { return };
    let server = server(&models);
    let window = browser.open(&format!("{}/uploads/demo", server.url));
    window.resize(1100, 900);
    window.wait_for("document.querySelector('#line').textContent === 'live'");
    for (photo, label) in PHOTOS {
        let Ok(bytes) = std::fs::read(models.join("photos").join(photo)) else { continue };
        drop_file(&window, photo, &bytes);
        window.wait_for(&format!(
            "document.querySelector('.card[data-name=\"{photo}\"] .label strong')?.textContent \
             === '{label}'"
        ));
    }
    window.wait_for("Array.from(document.images).every((it) => it.complete)");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("uploads-photos.png");
    window.screenshot(&file).expect("a picture");
    eprintln!("a picture of the page: {}", file.display());
    browser.assert_quiet();
}
