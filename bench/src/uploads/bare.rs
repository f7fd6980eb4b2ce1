//! The embedded classifier compared to the bare call of its library.

use std::{sync::Arc, time::Duration};

use rten::{Model, ModelOptions, RunOptions, ThreadPool, ValueView};
use steadfast_images::{ImageLimits, Pool};
use steadfast_uploads::classifier::{Classifier, Embedded, ModelState};

use super::classifiers::{EDGE, image, models, pixels};
use crate::measure::{median, now, say};

/// Maximum ratio of its time to that of the bare call.
const RATIO_MAX: f64 = 1.15;
const ROUNDS: usize = 60;
/// The edge of the image for the network.
const MIDDLE: usize = 224;
/// The mean colour that was subtracted in training.
const MEAN: [f32; 3] = [123.68, 116.779, 103.939];
/// The embedded classifier has as many for each image.
const THREADS: usize = 2;

/// One image at a time: through the pool and the trait, and the bare call with the same numbers.
pub(super) async fn run() {
    let pool = Pool::for_this_machine("classify").expect("threads start");
    let embedded = Embedded::new(&models(), ImageLimits::default(), pool);
    if embedded.progress() != ModelState::Ready {
        return say("Classifier: skipped, no model; `tests/models install` fetches it");
    }
    say("Classifier, one image at a time, in turns");
    let (image, bare) = (image(7), Arc::new(Bare::new()));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let began = now();
        let labels = embedded.classify(&image).await.expect("classified");
        let took = began.elapsed();
        let bare = bare.clone();
        let (score, bare_took) =
            tokio::task::spawn_blocking(move || bare.run()).await.expect("ends");
        // The first round is warm-up.
        if 0 < round {
            ours.push(took);
            theirs.push(bare_took);
        }
        assert!((labels[0].score - f64::from(score)).abs() < 1e-4, "the same image: {score}");
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.div_duration_f64(theirs);
    say(&format!("  the bare call of rten              {theirs:>9.1?} median"));
    say(&format!(
        "  decoded, through pool and trait    {ours:>9.1?} median, {ratio:.3} x bare \
         (to be {RATIO_MAX} at most)"
    ));
}

/// The library alone.
struct Bare {
    model: Model,
    numbers: Vec<f32>,
    threads: Arc<ThreadPool>,
}

impl Bare {
    fn new() -> Self {
        let folder = models().join("resnet-50");
        let manifest = std::fs::read(folder.join("manifest.json")).expect("read");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        let file = folder.join(manifest["file"].as_str().expect("a name"));
        let bytes = std::fs::read(file).expect("read");
        let mut options = ModelOptions::with_all_ops();
        let model = options.prepack_weights(true).load(bytes).expect("loads");
        let threads = Arc::new(ThreadPool::with_num_threads(THREADS));
        Self { model, numbers: numbers(), threads }
    }

    /// The highest score, and the duration.
    fn run(&self) -> (f32, Duration) {
        let began = now();
        let shape = [1, 3, MIDDLE, MIDDLE];
        let input = ValueView::from_shape(shape, &self.numbers).expect("fits");
        let options = RunOptions::default().with_thread_pool(Some(self.threads.clone()));
        let inputs = vec![(self.model.input_ids()[0], input.into())];
        let answer = self.model.run_n(inputs, [self.model.output_ids()[0]], Some(options));
        let [answer] = answer.expect("runs");
        let (_, scores) = answer.into_shape_vec::<f32, 2>().expect("scores");
        (scores.into_iter().fold(0.0, f32::max), began.elapsed())
    }
}

/// The same image as the input of the network.
fn numbers() -> Vec<f32> {
    let (all, from) = (pixels(7), (EDGE as usize - MIDDLE) / 2);
    let number = |channel: usize, index: usize| {
        let (x, y) = (from + index % MIDDLE, from + index / MIDDLE);
        f32::from(all.get_pixel(x as u32, y as u32).0[channel]) - MEAN[channel]
    };
    let plane = |channel| (0..MIDDLE * MIDDLE).map(move |index| (channel, index));
    (0..3).flat_map(plane).map(|(channel, index)| number(channel, index)).collect()
}
