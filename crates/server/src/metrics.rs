//! Metrics of this process, for Prometheus. The registry is a value: nothing here is global.

use std::borrow::Cow;

use axum::http::{Method, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};
use steadfast_core::queue::QueueView;
use steadfast_store::{Activity, Totals};

/// Labels with bounded values: the pattern of a route, never a path.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    route: Cow<'static, str>,
    method: &'static str,
    status: &'static str,
}

/// Bounded: see [`Figures::queues`].
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    queue: String,
}

/// Name, help and value of a metric of a queue.
type QueueFigure = (&'static str, &'static str, fn(&QueueView) -> u64);

/// Counters that live as long as the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
}

/// Values at one time.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Activity of the store.
    pub(crate) activity: Activity,
    /// Totals of the store, if it responds.
    pub(crate) totals: Option<Totals>,
    /// Whether the store can write.
    pub(crate) ready: bool,
    /// Objects in memory.
    pub(crate) awake: usize,
    /// Live connections.
    pub(crate) connections: usize,
    /// Counters of the applications: names, help, values.
    pub(crate) counters: Vec<(&'static str, &'static str, u64)>,
    /// A bounded number of queues, and whether others exist; `None` if the store does not respond.
    pub(crate) queues: Option<(Vec<QueueView>, bool)>,
}

impl Metrics {
    /// All counters at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("steadfast");
        let requests = Family::default();
        registry.register("http_requests", "HTTP requests by route and status", requests.clone());
        Self { registry, requests }
    }

    /// Counts one request.
    pub(crate) fn count_request(
        &self,
        route: Cow<'static, str>,
        method: &Method,
        status: StatusCode,
    ) {
        let labels = Labels { route, method: method_label(method), status: status_label(status) };
        self.requests.get_or_create(&labels).inc();
    }

    /// Encodes all metrics in the text format of Prometheus.
    pub(crate) fn write(&self, figures: &Figures) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &figures.registry())?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }
}

impl Figures {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("steadfast");
        let Activity { commits, batches, reads, steps, heartbeats, log_bytes } = self.activity;
        for (name, help, value) in [
            ("commits", "Commits completed", commits),
            ("batches", "Transactions that the commits took", batches),
            ("reads", "Reads completed", reads),
            ("read_steps", "Steps of SQLite for reads", steps),
            ("heartbeats", "Heartbeats of an idle owner", heartbeats),
            ("log_bytes", "Bytes written to the write-ahead log", log_bytes),
        ]
        .into_iter()
        .chain(self.counters.iter().copied())
        {
            registry.register(name, help, ConstCounter::new(value));
        }
        let ready = i64::from(self.ready);
        registry.register("store_ready", "1 if the store can write", ConstGauge::new(ready));
        let awake = i64::try_from(self.awake).unwrap_or(i64::MAX);
        registry.register("objects_awake", "Objects in memory", ConstGauge::new(awake));
        let connections = i64::try_from(self.connections).unwrap_or(i64::MAX);
        registry.register("connections", "Live connections", ConstGauge::new(connections));
        if let Some(Totals { position, pending, dead }) = self.totals {
            for (name, help, value) in [
                ("position", "Last position of a message", position),
                ("work_pending", "Messages to be delivered", pending),
                ("work_dead", "Dead messages", dead),
            ] {
                registry.register(name, help, ConstGauge::new(value));
            }
        }
        self.add_queues(&mut registry);
        registry
    }

    fn add_queues(&self, registry: &mut Registry) {
        let Some((queues, is_truncated)) = &self.queues else { return };
        let help =
            "1 if some queues have no metrics: consumed queues and those with messages come first";
        registry.register("queues_truncated", help, ConstGauge::new(i64::from(*is_truncated)));
        let figures: [QueueFigure; 5] = [
            ("queue_depth", "Messages that are waiting or in flight", |it| it.depth),
            ("queue_in_flight", "Messages held by a consumer", |it| it.in_flight),
            ("queue_dead", "Dead messages in the queue", |it| it.dead),
            ("queue_oldest_age_seconds", "Age of the oldest message", |it| {
                it.oldest_age_ms.unwrap_or(0) / 1_000
            }),
            ("queue_paused", "1 if nothing is delivered", |it| u64::from(it.paused)),
        ];
        for (name, help, value) in figures {
            let family = Family::<QueueLabels, Gauge>::default();
            for queue in queues {
                let labels = QueueLabels { queue: queue.name.clone() };
                let value = i64::try_from(value(queue)).unwrap_or(i64::MAX);
                family.get_or_create(&labels).set(value);
            }
            registry.register(name, help, family);
        }
    }
}

fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
