//! The application, environments, and an explainer that may be down.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use steadfast_core::{App, Object, test::TestApp};
use steadfast_drift::{
    Brief, CompareEnvironments, CompareError, Comparison, CreateComparison, EnvPair,
    FailComparison, GetComparison, ListComparisons, Pairs, Shown, Vault,
    explain::{DriftSummary, ExplainError, Explainer, Explanation, Rules},
    pair::Pair,
    probe::{ProbeOptions, Prober},
};
use steadfast_egress::{Gate, Policy};
use tokio::sync::Notify;

/// An environment: it answers with its name, and counts.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) url: String,
    pub(crate) asked: Arc<AtomicUsize>,
    /// The first line of every request.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Environment {
    pub(crate) fn start(name: &'static str) -> Self {
        Self::answering(answer(name))
    }

    /// One that ends so many connections without an answer, and answers then.
    pub(crate) fn dropping(first: usize, name: &'static str) -> Self {
        Self::serve(first, answer(name))
    }

    /// One that takes connections and never answers.
    pub(crate) fn silent() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        // It is there until the tests end.
        std::mem::forget(listener);
        Self { url, asked: Arc::default(), heads: Arc::default() }
    }

    /// One that answers with this.
    pub(crate) fn answering(answer: String) -> Self {
        Self::serve(0, answer)
    }

    fn serve(dropped: usize, answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, heads) = (asked.clone(), Arc::<Mutex<Vec<String>>>::default());
        let seen = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                if reader.read_line(&mut line).is_ok() {
                    seen.lock().unwrap().push(std::mem::take(&mut line));
                }
                while reader.read_line(&mut line).is_ok_and(|it| 2 < it) {
                    line.clear();
                }
                if count.fetch_add(1, Ordering::SeqCst) < dropped {
                    continue;
                }
                // The client may have disconnected.
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, asked, heads }
    }
}

fn answer(name: &str) -> String {
    let length = name.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-name: {name}\r\n\
         cache-control: {name}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{name}"
    )
}

/// Explains by rules, unless it is down.
#[derive(Clone, Default)]
pub(crate) struct Moody {
    pub(crate) is_down: Arc<AtomicBool>,
    pub(crate) refuses: Arc<AtomicBool>,
    /// How often it fails before it explains.
    pub(crate) fails: Arc<AtomicUsize>,
    /// A slow explainer waits for this.
    pub(crate) slow: Option<Arc<Notify>>,
    /// Where the key for secrets in URLs is.
    pub(crate) vault: Vault,
    /// The summaries that it got.
    pub(crate) told: Arc<Mutex<Vec<DriftSummary>>>,
}

#[async_trait]
impl Explainer for Moody {
    async fn explain(&self, summary: &DriftSummary) -> Result<Explanation, ExplainError> {
        self.told.lock().unwrap().push(summary.clone());
        if let Some(slow) = &self.slow {
            slow.notified().await;
        }
        let failed =
            self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
        if failed.is_ok() {
            return Err(ExplainError::Answer { message: "no sense".into() });
        }
        if self.refuses.load(Ordering::SeqCst) {
            return Err(ExplainError::Refused { message: "the key is wrong".into() });
        }
        if self.is_down.load(Ordering::SeqCst) {
            return Err(ExplainError::Unavailable { message: "not now".into() });
        }
        Rules.explain(summary).await
    }

    fn name(&self) -> String {
        "moody".into()
    }
}

/// How often a difference is looked at again.
pub(crate) const ROUNDS: usize = 2;

/// How often a side without an answer is asked again.
pub(crate) const RETRIES: usize = 3;

/// Maximum number of comparisons of a pair in progress.
pub(crate) const RUNNING_MAX: u32 = 100;

pub(crate) fn program(moody: &Moody) -> App {
    let policy = Policy::public_only().allow_network("127.0.0.0/8".parse().unwrap());
    let pause = Duration::from_millis(1);
    let options =
        ProbeOptions { rounds: ROUNDS, retries: RETRIES, pause, ..ProbeOptions::default() };
    let prober = Prober::new(Gate::new(policy), options);
    let explainer: Arc<dyn Explainer> = Arc::new(moody.clone());
    let vault = moody.vault.clone();
    App::new("test")
        .object(EnvPair { keep: 50, running_max: RUNNING_MAX })
        .object(Pairs)
        .workflow(CompareEnvironments { prober, explainer, vault: moody.vault.clone() })
        .on_open(move |program| vault.keep_in(program))
}

/// A comparison of two environments, under an id of its own.
pub(crate) fn create(left: &str, right: &str, number: u32) -> (String, CreateComparison) {
    let pair = Pair::new(&left.parse().unwrap(), &right.parse().unwrap()).unwrap();
    let id = pair.comparison_id(&format!("00000000-0000-4000-8000-{number:012}"));
    let comparison = Comparison {
        left_url: left.into(),
        right_url: right.into(),
        left_label: Some("left".into()),
        right_label: None,
        head: false,
    };
    let direction = pair.direction();
    let sealed = None;
    (pair.key().to_owned(), CreateComparison { comparison_id: id, comparison, direction, sealed })
}

pub(crate) async fn find(app: &TestApp, pair: &str, id: &str) -> Option<Shown> {
    let ask = GetComparison { comparison_id: id.into() };
    app.call(EnvPair::at(pair), ask).await.unwrap()
}

pub(crate) async fn all(app: &TestApp, pair: &str) -> Vec<Brief> {
    app.call(EnvPair::at(pair), ListComparisons { before: None, limit: 200 }).await.unwrap()
}

/// Waits until a comparison has ended: probes are real, and take real time.
pub(crate) async fn ended(app: &TestApp, pair: &str, id: &str) -> Shown {
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    loop {
        app.settle().await;
        let shown = find(app, pair, id).await.unwrap();
        if shown.status != steadfast_drift::Status::Running {
            return shown;
        }
        // The clock does not advance, and an explanation that failed is tried again later.
        if shown.step.as_deref() == Some("explaining") {
            app.advance(Duration::from_secs(1)).await;
        }
        pause.tick().await;
    }
}

/// Begins a comparison under each of these numbers.
pub(crate) async fn begin(
    app: &TestApp,
    left: &str,
    right: &str,
    numbers: Range<u32>,
) -> Vec<String> {
    let mut ids = Vec::new();
    for number in numbers {
        let (pair, create) = create(left, right, number);
        ids.push(create.comparison_id.clone());
        app.call(EnvPair::at(&pair), create).await.unwrap();
    }
    ids
}

/// A comparison came to nothing.
pub(crate) fn failed(id: &str, code: &str) -> FailComparison {
    let error = CompareError { code: code.into(), message: "as the test wants".into() };
    FailComparison { comparison_id: id.into(), error }
}
