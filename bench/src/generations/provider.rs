//! A provider that takes a while for each picture and records when it was done.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use axum::body::Bytes;
use serde_json::json;
use steadfast_core::store::{Clock, SystemClock, Timestamp};
use steadfast_generations::providers::{
    Checked, Embedded, GenerateError, Model, OutputKind, OutputSource, OutputStream, Provider,
    Report, Request, Submitted, Task,
};
use steadfast_images::Pool;

use crate::measure::now;

/// The time for one picture.
const TAKES: Duration = Duration::from_millis(50);

const MODEL: &str = "bench:slow@1";
const DRAWN: &str = "embedded:art@1";

/// The times of the pictures of one prompt.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    /// The time of the slowest of them.
    pub(super) longest: Duration,
    /// When the last of them was done.
    pub(super) last: Timestamp,
}

#[derive(Default)]
pub(super) struct Books {
    pub(super) answered: HashMap<String, Answered>,
    /// The sum of all calls.
    pub(super) busy: Duration,
    under_way: usize,
    /// The maximum of concurrent calls.
    pub(super) most: usize,
}

impl Books {
    fn begin(&mut self) {
        self.under_way += 1;
        self.most = self.most.max(self.under_way);
    }

    fn end(&mut self, prompt: String, took: Duration) {
        self.under_way -= 1;
        self.busy += took;
        let last = SystemClock.now();
        let answered = self.answered.entry(prompt).or_insert(Answered { longest: took, last });
        *answered = Answered { longest: answered.longest.max(took), last };
    }
}

/// The provider. It has one small picture, drawn before: drawing takes longer than everything else.
pub(super) struct Slow {
    embedded: Embedded,
    picture: Bytes,
    books: Mutex<Books>,
}

impl Slow {
    pub(super) fn new() -> Self {
        let pool = Pool::for_this_machine("draw").expect("threads start");
        let mut picture = std::io::Cursor::new(Vec::new());
        let drawn = image::RgbImage::from_fn(64, 64, |x, y| {
            image::Rgb([4 * x as u8, 4 * y as u8, (x ^ y) as u8])
        });
        drawn.write_to(&mut picture, image::ImageFormat::Png).expect("it is drawn");
        let picture = Bytes::from(picture.into_inner());
        Self { embedded: Embedded::new(pool), picture, books: Mutex::default() }
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no thread panics")
    }
}

/// A shared provider.
pub(super) struct Shared(pub(super) std::sync::Arc<Slow>);

#[async_trait]
impl Provider for Shared {
    fn name(&self) -> &'static str {
        "bench"
    }

    fn models(&self) -> Vec<Model> {
        vec![Model { id: MODEL.into(), name: "slow".into(), kind: OutputKind::Image }]
    }

    fn check(&self, request: &Request) -> Result<Checked, GenerateError> {
        let mut input = request.input.clone();
        for side in ["width", "height"] {
            input.insert(side.into(), json!(64));
        }
        Ok(Checked { kind: OutputKind::Image, input })
    }

    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError> {
        self.0.books().begin();
        let began = now();
        SystemClock.sleep(TAKES).await;
        let took = began.elapsed();
        let prompt = task.input["positivePrompt"].as_str().expect("a prompt").to_owned();
        let drawn = Task { model: DRAWN.into(), ..task.clone() };
        let outputs = self.0.embedded.submit(&drawn).await;
        self.0.books().end(prompt, took);
        outputs
    }

    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        self.0.embedded.poll(tasks).await
    }

    async fn open(&self, _: &OutputSource, _: u64) -> Result<OutputStream, GenerateError> {
        OutputStream::there(self.0.picture.clone())
    }

    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        self.0.embedded.parse_webhook(body)
    }
}
