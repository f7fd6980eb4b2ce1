//! One look at an environment: a request, its redirects, and all that can be told about the way.
//!
//! It has its own connector, because an ordinary client shows neither the phases of a request nor
//! certificates. It trusts nobody: every hop goes through the [`Gate`], everything that is read has
//! a limit, and all of it together has a budget of time. Whatever happens, the answer is a
//! [`ProbeResult`].

mod body;
mod certificate;
mod headers;
mod hop;
mod redact;
mod scrub;
mod tls;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustls::RootCertStore;
use steadfast_core::store::{DateTime, Timestamp};
use steadfast_egress::{EgressError, Gate, Target};
use tokio::time::Instant;

pub(crate) use self::redact::{Known, is_redacted, urls_within};
pub use self::redact::{redacted_url, shown_url};
use self::{hop::Answer, tls::Trust};
use crate::envelope::{
    CfContext, Hop, Platform, ProbeError, ProbeErrorCode, ProbeFailure, ProbeResponse, ProbeResult,
    RedirectHop, SIGNAL_SCHEMA_VERSION, Side, SignalEnvelope,
};

/// How a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// With the body.
    #[default]
    Get,
    /// Without the body, so there is no hash of it.
    Head,
}

/// How a probe is made.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// How a request is made.
    pub method: Method,
    /// How long all of it may take.
    pub budget: Duration,
    /// How many redirects are followed.
    pub redirects_max: usize,
    /// How much of a body is read, and how much of it is kept after decompression.
    pub body_bytes_max: usize,
    /// The user agent of the probe.
    pub user_agent: String,
    /// How often a side that gives no answer is asked again before that is reported. Each pause
    /// is twice as long as the one before.
    pub retries: usize,
    /// How often a difference is checked again before it is reported.
    pub rounds: usize,
    /// How long to wait before each of these rounds.
    pub pause: Duration,
    /// How long all rounds together may take; one that has begun is ended.
    pub sampling_max: Duration,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            method: Method::Get,
            budget: Duration::from_secs(9),
            redirects_max: 10,
            body_bytes_max: 1 << 20,
            user_agent: concat!("steadfast-drift/", env!("CARGO_PKG_VERSION")).to_owned(),
            retries: 4,
            rounds: 9,
            pause: Duration::from_millis(150),
            sampling_max: Duration::from_secs(30),
        }
    }
}

/// The URL to probe, and the comparison that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The comparison.
    pub comparison_id: String,
    /// Which environment.
    pub side: Side,
    /// Its URL.
    pub url: String,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Makes probes. Clones share what it trusts.
#[derive(Clone, Debug)]
pub struct Prober {
    gate: Gate,
    options: ProbeOptions,
    /// Whom it trusts. Certificates of the system are read at the first encrypted connection.
    trust: Arc<OnceLock<Trust>>,
}

/// The observations so far; they are kept at a timeout.
#[derive(Default)]
struct Seen {
    redirects: Vec<RedirectHop>,
    hops: Vec<Hop>,
    /// Secrets of the URLs that were asked.
    known: Known,
}

impl Prober {
    /// A prober that trusts whom the system trusts.
    pub fn new(gate: Gate, options: ProbeOptions) -> Self {
        Self { gate, options, trust: Arc::default() }
    }

    /// A prober that trusts others.
    pub fn with_roots(gate: Gate, options: ProbeOptions, roots: RootCertStore) -> Self {
        Self { gate, options, trust: Arc::new(Trust::roots(roots).into()) }
    }

    fn trust(&self) -> &Trust {
        self.trust.get_or_init(Trust::system)
    }

    /// The same prober with other options, for one request that asks for them.
    pub fn with_options(&self, options: ProbeOptions) -> Self {
        Self { options, ..self.clone() }
    }

    /// The options.
    pub fn options(&self) -> &ProbeOptions {
        &self.options
    }

    /// Probes an environment. It never fails: why there is no response is part of the envelope.
    pub async fn probe(&self, request: &ProbeRequest) -> SignalEnvelope {
        let ProbeRequest { comparison_id, side, url, now_ms } = request;
        let start = Instant::now();
        let mut seen = Seen::default();
        let ended = self.follow(url, start + self.options.budget, &mut seen).await;
        let duration_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (mut cf, mut platform) = (None, None);
        let Seen { redirects, hops, known } = seen;
        let result = match ended {
            Ok(answer) => {
                cf = Some(context(&answer, hops.last()));
                platform = (answer.platform != Platform::default()).then_some(answer.platform);
                let ok = answer.response.status < 400;
                let response = answer.response;
                ProbeResult::Response(
                    ProbeResponse {
                        ok,
                        response,
                        redirects,
                        hops,
                        duration_ms,
                        samples_ms: Vec::new(),
                        samples_bytes: Vec::new(),
                        failures: Vec::new(),
                    }
                    .into(),
                )
            }
            Err(error) => {
                let duration_ms = Some(duration_ms);
                ProbeResult::Failure(
                    ProbeFailure { ok: false, error, redirects, hops, duration_ms }.into(),
                )
            }
        };
        let mut envelope = SignalEnvelope {
            schema_version: SIGNAL_SCHEMA_VERSION,
            comparison_id: comparison_id.clone(),
            probe_id: format!("{comparison_id}:{}", side.as_str()),
            side: *side,
            requested_url: redacted_url(url),
            captured_at: iso(*now_ms),
            cf,
            platform,
            result,
        };
        scrub::scrub(&mut envelope, &known);
        envelope
    }

    /// Follows redirects to the last response.
    async fn follow(
        &self,
        url: &str,
        deadline: Instant,
        seen: &mut Seen,
    ) -> Result<Answer, ProbeError> {
        seen.known.learn(url);
        let mut target = self.gate.check(url).map_err(refused)?;
        let mut visited = BTreeSet::new();
        loop {
            visited.insert(target.url().to_string());
            let outcome = hop::visit(self, &target, deadline).await?;
            let status = outcome.hop.status;
            seen.hops.push(outcome.hop);
            let answer = match outcome.end {
                hop::End::Answer(answer) => return Ok(*answer),
                hop::End::Redirect(location) => location,
            };
            let next = self.next(&target, answer, status, seen)?;
            if !visited.contains(next.url().as_str()) && seen.redirects.len() <= self.limit() {
                target = next;
                continue;
            }
            let message = match visited.contains(next.url().as_str()) {
                true => "the redirects go round in a circle".to_owned(),
                false => format!("Too many redirects (>{})", self.limit()),
            };
            return Err(failed(ProbeErrorCode::FetchError, message));
        }
    }

    fn limit(&self) -> usize {
        self.options.redirects_max
    }

    /// Where a redirect leads; checked like the first URL.
    fn next(
        &self,
        from: &Target,
        location: Option<String>,
        status: u16,
        seen: &mut Seen,
    ) -> Result<Target, ProbeError> {
        let Some(location) = location else {
            let message = format!("the status is {status}, but there is no Location");
            return Err(failed(ProbeErrorCode::FetchError, message));
        };
        let is_odd = |it: char| it.is_control() || it == '\\';
        let joined = from.url().join(&location);
        let (true, Ok(url)) = (!location.contains(is_odd), joined) else {
            let message = format!("the redirect of {} leads to no URL", from.host());
            return Err(failed(ProbeErrorCode::InvalidUrl, message));
        };
        seen.known.learn(url.as_str());
        seen.redirects.push(RedirectHop {
            from_url: redacted_url(from.url().as_str()),
            to_url: redacted_url(url.as_str()),
            status,
        });
        self.gate.check_url(url).map_err(refused)
    }
}

/// Where the answer came from, as far as it says so.
fn context(answer: &Answer, hop: Option<&Hop>) -> CfContext {
    let headers::Place { colo, country, asn } = answer.place.clone();
    CfContext {
        colo,
        country,
        asn,
        tls_version: hop.and_then(|it| it.tls.as_ref()).map(|it| it.version.clone()),
        http_protocol: hop.map(|it| it.protocol.clone()),
    }
}

/// Milliseconds since 1970 as ISO 8601.
fn iso(now_ms: i64) -> String {
    DateTime::of(Timestamp(now_ms)).map_or_else(String::new, |it| it.to_string())
}

/// A failure without certificates.
fn failed(code: ProbeErrorCode, message: impl Into<String>) -> ProbeError {
    ProbeError { code, message: message.into(), certificates: Vec::new() }
}

fn refused(error: EgressError) -> ProbeError {
    let code = match &error {
        EgressError::InvalidUrl { .. } => ProbeErrorCode::InvalidUrl,
        EgressError::Blocked { .. } => ProbeErrorCode::SsrfBlocked,
        EgressError::Dns { .. } => ProbeErrorCode::DnsError,
    };
    failed(code, error.to_string())
}
