//! The application, and a provider that does what the prompt says.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use steadfast_core::{App, Bucket, Object, bucket::ListOptions, store::Seal, test::TestApp};
use steadfast_generations::providers::{
    Checked, Embedded, ErrorKind, GenerateError, Model, Output, OutputKind, OutputSource,
    OutputStream, Provider, Report, Request as Asked, Submitted, Task, TaskState,
};
use steadfast_images::Pool;
use tokio::sync::{OnceCell, watch};

use steadfast_generations::{
    ARTIFACTS, Create, DEFAULT_WORKSPACE, Generation, GenerationManager, GetGeneration, GetState,
    Library, Made, Providers, ProvidersOptions, Request, Webhook, task_id,
};

use crate::full::Full;

/// The state of a provider, which survives the end of the process that calls it.
#[derive(Default)]
pub(crate) struct Books {
    /// How often each task was paid for.
    pub(crate) paid: BTreeMap<String, u32>,
    /// The states of tasks.
    pub(crate) known: HashMap<String, State>,
    /// How often it was asked to begin.
    pub(crate) submitted: u32,
    /// How often it was asked how far something is.
    pub(crate) polled: u32,
    /// Nobody answers.
    pub(crate) is_down: bool,
    /// How long it wants to be left alone when nobody answers.
    pub(crate) down_for: Option<Duration>,
    /// Polls are answered when something is sent to `calls`.
    pub(crate) is_poll_held: bool,
    /// It has too many requests, and asks for a retry after this time.
    pub(crate) busy: Option<Duration>,
    /// The bucket of the artifacts cannot be reached.
    pub(crate) is_bucket_away: bool,
    /// The library refuses everything, in the next process.
    pub(crate) is_library_full: bool,
    /// Why nothing that it made can be had.
    pub(crate) withheld: Option<ErrorKind>,
}

#[derive(Clone, PartialEq)]
pub(crate) enum State {
    Working(u8),
    Done,
    Failed,
}

/// The provider. Clones share its books.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) books: Arc<Mutex<Books>>,
    /// Calls of the prompt `held` are answered when something is sent here.
    pub(crate) calls: watch::Sender<u32>,
    embedded: Arc<Embedded>,
    /// The output of each task, always the same.
    source: OutputSource,
    /// It is drawn once: that takes longer than all that the application does with it.
    drawn: Arc<OnceCell<Bytes>>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let pool = Pool::new("fake", 2).unwrap();
        let embedded = Arc::new(Embedded::new(pool));
        let mut input = Map::new();
        input.insert("positivePrompt".into(), "a test".into());
        for side in ["width", "height"] {
            input.insert(side.into(), 64.into());
        }
        let asked = Asked { model: "embedded:art@1".into(), input };
        let Checked { kind, input } = embedded.check(&asked).unwrap();
        let (id, webhook_url) = (task_id("test", 0, 0), None);
        let task = Task { id, model: asked.model, kind, input, webhook_url };
        let made = embedded.submit(&task).now_or_never().unwrap().unwrap();
        let Submitted::Finished(outputs) = made else { panic!("it draws at once") };
        let source = outputs[0].source.clone();
        let calls = watch::Sender::new(0);
        Self { books: Arc::default(), calls, embedded, source, drawn: Arc::default() }
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// Nothing was paid for twice.
    pub(crate) fn assert_fair(&self) {
        let books = self.books();
        assert!(books.paid.values().all(|it| *it == 1), "{:?}", books.paid);
    }

    /// It is done with everything that it works on.
    pub(crate) fn finish(&self) {
        for state in self.books().known.values_mut() {
            if matches!(state, State::Working(_)) {
                *state = State::Done;
            }
        }
    }

    fn output(&self, task: &str) -> Output {
        Output {
            id: Some(format!("output-of-{task}")),
            source: self.source.clone(),
            seed: Some(7),
            cost: Some(0.25),
            content_type: None,
            raw: json!({ "taskUUID": task }),
        }
    }

    /// The output of a task, as the application keeps it.
    pub(crate) fn made(&self, task: &str) -> Made {
        let Output { source, seed, cost, raw: response, .. } = self.output(task);
        Made { source: serde_json::to_value(source).unwrap(), seed, cost, response }
    }

    /// The body of a webhook that tells of a success.
    pub(crate) fn webhook(task: &str) -> String {
        json!({ "task": task }).to_string()
    }

    /// A success whose bytes are nowhere.
    fn gone(&self, task: &str) -> Output {
        let source = OutputSource::Url { url: "http://gone".into() };
        Output { source, ..self.output(task) }
    }
}

fn unavailable(retry_after: Option<Duration>) -> GenerateError {
    let error = GenerateError::new(ErrorKind::Unavailable, "the provider is down");
    GenerateError { retry_after, ..error }
}

fn busy(retry_after: Option<Duration>) -> GenerateError {
    let error = GenerateError::new(ErrorKind::RateLimited, "the provider has too many requests");
    GenerateError { retry_after, ..error }
}

#[async_trait]
impl Provider for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    fn check(&self, request: &Asked) -> Result<Checked, GenerateError> {
        Ok(Checked { kind: OutputKind::Image, input: request.input.clone() })
    }

    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError> {
        let prompt = task.input["positivePrompt"].as_str().unwrap().to_owned();
        if prompt == "endless" {
            return std::future::pending().await;
        }
        if prompt == "held" {
            let mut calls = self.calls.subscribe();
            calls.changed().await.unwrap();
        }
        let mut books = self.books();
        books.submitted += 1;
        if books.is_down {
            return Err(unavailable(books.down_for));
        }
        if books.busy.is_some() {
            return Err(busy(books.busy));
        }
        if prompt == "refused" {
            return Err(GenerateError::new(ErrorKind::Content, "not such a picture"));
        }
        *books.paid.entry(task.id.clone()).or_default() += 1;
        match prompt.as_str() {
            "now" | "held" => {
                books.known.insert(task.id.clone(), State::Done);
                drop(books);
                Ok(Submitted::Finished(vec![self.output(&task.id)]))
            }
            // It has taken it, and the answer is lost.
            "lost" => {
                books.known.insert(task.id.clone(), State::Done);
                Err(unavailable(None))
            }
            _ => {
                books.known.insert(task.id.clone(), State::Working(10));
                Ok(Submitted::Accepted)
            }
        }
    }

    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        let is_held = self.books().is_poll_held;
        if is_held {
            let mut calls = self.calls.subscribe();
            calls.changed().await.unwrap();
        }
        let mut books = self.books();
        books.polled += 1;
        if books.is_down {
            return Err(unavailable(books.down_for));
        }
        if books.busy.is_some() {
            return Err(busy(books.busy));
        }
        let state = |task: &String| match books.known.get(task) {
            None => TaskState::Unknown,
            Some(State::Working(it)) => {
                TaskState::InProgress { progress: Some(*it), outputs: Vec::new() }
            }
            Some(State::Done) => TaskState::Finished(vec![self.output(task)]),
            Some(State::Failed) => TaskState::Failed(GenerateError::new(ErrorKind::Refused, "no")),
        };
        Ok(tasks.iter().map(|it| Report { task: Some(it.clone()), state: state(it) }).collect())
    }

    async fn open(&self, source: &OutputSource, max: u64) -> Result<OutputStream, GenerateError> {
        let withheld = self.books().withheld;
        if let Some(kind) = withheld {
            return Err(GenerateError::new(kind, "it cannot be had"));
        }
        let opened = self.embedded.open(source, max);
        if *source != self.source {
            return opened.await;
        }
        let draw = || async {
            let (mut output, mut bytes) = (opened.await?, Vec::<u8>::new());
            while let Some(chunk) = output.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            Ok::<_, GenerateError>(Bytes::from(bytes))
        };
        OutputStream::there(self.drawn.get_or_try_init(draw).await?.clone())
    }

    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| GenerateError::new(ErrorKind::Answer, error.to_string()))?;
        let task = body["task"].as_str().map(str::to_owned);
        let state = match (&task, body["error"].as_str()) {
            (Some(task), Some(GONE)) => TaskState::Finished(vec![self.gone(task)]),
            (Some(task), None) => TaskState::Finished(vec![self.output(task)]),
            (_, error) => {
                let error = error.unwrap_or("nothing");
                TaskState::Failed(GenerateError::new(ErrorKind::Refused, error))
            }
        };
        Ok(vec![Report { task, state }])
    }
}

/// The application.
pub(crate) fn program(fake: &Fake) -> App {
    program_and_providers(vec![Arc::new(fake.clone())], Some(fake)).0
}

/// The application, and the providers that work for it.
pub(crate) async fn start_with_providers(fake: &Fake) -> (TestApp, Arc<Providers>) {
    let (program, providers) = program_and_providers(vec![Arc::new(fake.clone())], Some(fake));
    (program.test().await.unwrap(), providers)
}

/// The same with other providers.
pub(crate) fn program_with(providers: Vec<Arc<dyn Provider>>) -> App {
    program_and_providers(providers, None).0
}

fn program_and_providers(
    providers: Vec<Arc<dyn Provider>>,
    fake: Option<&Fake>,
) -> (App, Arc<Providers>) {
    let program = App::new("test");
    let (place, books) = (program.client(), fake.map(|it| it.books.clone()));
    let is_away = move || books.as_ref().is_some_and(|it| it.lock().unwrap().is_bucket_away);
    let providers = Arc::new(Providers::new(
        providers,
        ProvidersOptions::default(),
        Arc::new(move || match is_away() {
            true => place.bucket(Bucket::named("away")),
            false => place.bucket(ARTIFACTS),
        }),
    ));
    let (managers, works) = (program.client(), providers.clone());
    providers.seal_with(seal());
    providers.connect(move || managers.runtime().map(|it| it.objects().clone()));
    let program = steadfast_generations::with_jobs(program, &providers);
    let program = match fake.is_some_and(|it| it.books().is_library_full) {
        true => program.object(Full),
        false => program.object(Library),
    };
    (program, works)
}

pub(crate) async fn start(fake: &Fake) -> TestApp {
    program(fake).test().await.unwrap()
}

pub(crate) const ID: &str = "0190b0a0-0000-7000-8000-000000000001";
/// The token of the webhook of a task.
pub(crate) fn token(task: &str) -> String {
    let keys = seal().derived("generation webhooks").unwrap();
    steadfast_generations::providers::webhook_token(&keys[0], ID, task)
}

fn seal() -> Seal {
    Seal::of_key([7; 32])
}

pub(crate) fn request(prompt: &str, count: u32) -> Create {
    let mut input = Map::new();
    input.insert("positivePrompt".into(), prompt.into());
    input.insert("seed".into(), 5.into());
    Create {
        request: Request {
            provider: "fake".into(),
            model: "fake:1@1".into(),
            kind: OutputKind::Image,
            input,
            count,
            tags: vec!["first".into()],
        },
        workspace: DEFAULT_WORKSPACE.into(),
        webhooks: Some("http://here".into()),
        timeout_ms: 300_000,
    }
}

pub(crate) async fn create(app: &TestApp, prompt: &str, count: u32) -> Generation {
    app.call(GenerationManager::at(ID), request(prompt, count)).await.unwrap()
}

pub(crate) async fn live(app: &TestApp) -> Option<Generation> {
    app.call(GenerationManager::at(ID), GetState).await.unwrap()
}

pub(crate) async fn kept(app: &TestApp) -> Option<Generation> {
    let ask = GetGeneration { id: ID.into() };
    app.call(Library::at(DEFAULT_WORKSPACE), ask).await.unwrap()
}

/// Delivers a webhook about a task of the first round.
pub(crate) async fn webhook(app: &TestApp, index: u32) -> Result<(), String> {
    webhook_of(app, index, 0).await
}

/// Delivers a webhook about a task of a round.
pub(crate) async fn webhook_of(app: &TestApp, index: u32, round: u32) -> Result<(), String> {
    let body = Fake::webhook(&task_id(ID, index, round));
    tell(app, &task_id(ID, index, round), body).await
}

/// The same, with a word that is no success, or one that cannot be had.
pub(crate) async fn webhook_with(
    app: &TestApp,
    index: u32,
    round: u32,
    word: &str,
) -> Result<(), String> {
    let task = task_id(ID, index, round);
    let body = json!({ "task": task, "error": word }).to_string();
    tell(app, &task, body).await
}

/// Makes [`webhook_with`] report a success whose bytes cannot be fetched.
pub(crate) const GONE: &str = "gone";

/// Delivers a webhook as its provider would.
pub(crate) async fn tell(app: &TestApp, task: &str, body: String) -> Result<(), String> {
    let told = Webhook { task: task.into(), token: token(task), body };
    app.call(GenerationManager::at(ID), told).await.map_err(|it| it.code().to_owned())
}

/// Waits for a condition that comes without the clock. After some turns of the other tasks it polls
/// once a millisecond, and leaves the processors to other tests.
pub(crate) async fn until(mut is_true: impl AsyncFnMut() -> bool) {
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    let wait = async {
        for poll in 0.. {
            if is_true().await {
                return;
            }
            match poll < 100 {
                true => tokio::task::yield_now().await,
                false => _ = pause.tick().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("it comes true");
}

pub(crate) async fn advance(app: &TestApp, seconds: u64) {
    app.advance(Duration::from_secs(seconds)).await;
}

/// Keys of the blobs that there are.
pub(crate) async fn blobs(app: &TestApp) -> Vec<String> {
    let list = app.bucket(ARTIFACTS).list(&ListOptions::default()).await.unwrap();
    list.blobs.into_iter().map(|it| it.key.to_string()).collect()
}
