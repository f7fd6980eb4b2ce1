//! Classifiers to measure with.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use steadfast_images::{ImageLimits, Pool};
use steadfast_uploads::classifier::{Classifier, ClassifyError, Embedded, Label, ModelState};

use crate::measure::{now, rate};

/// The edge of an image before the network takes its centre.
pub(super) const EDGE: u32 = 256;

/// Answers immediately.
pub(super) struct AtOnce;

#[async_trait]
impl Classifier for AtOnce {
    async fn classify(&self, _: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        Ok(labels())
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        Ok(())
    }

    fn name(&self) -> String {
        "answers at once".into()
    }
}

fn labels() -> Vec<Label> {
    let label = |it: u32| Label { label: format!("LABEL {it}"), score: 0.5 / f64::from(it) };
    (1..=5).map(label).collect()
}

/// Keeps a processor busy for a while, without a model.
struct Busy(Pool);

#[async_trait]
impl Classifier for Busy {
    async fn classify(&self, _: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let work = || {
            || {
                let began = now();
                while began.elapsed() < Duration::from_millis(50) {
                    std::hint::spin_loop();
                }
                labels()
            }
        };
        Ok(self.0.run(work).await.expect("runs"))
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        Ok(())
    }

    fn name(&self) -> String {
        "no model: 50 ms of a processor for each".into()
    }
}

/// A classifier behind a second pool like its own, whose threads wait for it and measure the time.
///
/// It never has more images than threads, so this is the time in which the threads work; the time
/// from the end of one image to the beginning of the next is idle.
pub(super) struct Watched {
    inner: Arc<dyn Classifier>,
    pool: Pool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    last: Option<Instant>,
    busy: Duration,
}

impl Seen {
    fn add(&mut self, began: Instant, ended: Instant) {
        self.first = Some(self.first.map_or(began, |it| it.min(began)));
        self.last = self.last.max(Some(ended));
        self.busy += ended - began;
    }
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Classifier>, threads: usize) -> Self {
        let pool = Pool::new("watch", threads).expect("threads start");
        Self { inner, pool, seen: Arc::default() }
    }

    /// The utilization of its threads from the first image to the last, and that time.
    pub(super) fn busy(&self) -> (f64, Duration) {
        let seen = self.seen.lock().expect("no thread panics");
        let took = seen.last.zip(seen.first).map_or(Duration::ZERO, |(last, first)| last - first);
        (seen.busy.div_duration_f64(took) / self.pool.threads() as f64, took)
    }
}

#[async_trait]
impl Classifier for Watched {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let tokio = tokio::runtime::Handle::current();
        let work = || {
            let (inner, seen, image) = (self.inner.clone(), self.seen.clone(), image.to_vec());
            move || {
                let began = now();
                let labels = tokio.block_on(inner.classify(&image));
                seen.lock().expect("no thread panics").add(began, now());
                labels
            }
        };
        self.pool.run(work).await.expect("runs")
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        Ok(())
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// A small image, another one for each number.
pub(super) fn image(number: usize) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    pixels(number).write_to(&mut bytes, image::ImageFormat::Png).expect("encoded");
    bytes.into_inner()
}

pub(super) fn pixels(number: usize) -> image::RgbImage {
    let value = |it: u32| (it % 256) as u8;
    let shift = number as u32;
    image::RgbImage::from_fn(EDGE, EDGE, |x, y| {
        image::Rgb([value(x + shift), value(y), value(x * y / 64 + shift)])
    })
}

/// The folder of the model of the tests.
pub(super) fn models() -> PathBuf {
    let named = std::env::var_os("STEADFAST_TEST_MODELS").map(PathBuf::from);
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    named.unwrap_or_else(|| {
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        cache.unwrap_or_default().join("steadfast/test-models")
    })
}

/// The embedded classifier, warm, on this pool; without its model, one that is as busy.
pub(super) async fn real(pool: Pool) -> Arc<dyn Classifier> {
    let embedded = Embedded::new(&models(), ImageLimits::default(), pool.clone());
    if embedded.progress() != ModelState::Ready {
        return Arc::new(Busy(pool));
    }
    embedded.classify(&image(0)).await.expect("classified");
    Arc::new(embedded)
}

/// Images per second of a classifier without other load.
pub(super) async fn rate_alone(classifier: &Arc<dyn Classifier>) -> f64 {
    const COUNT: usize = 100;
    let images: Vec<_> = (0..COUNT).map(image).collect();
    let mut all = tokio::task::JoinSet::new();
    let began = now();
    for image in images {
        let classifier = classifier.clone();
        all.spawn(async move { classifier.classify(&image).await.expect("classified") });
    }
    all.join_all().await;
    rate(COUNT, began.elapsed())
}
