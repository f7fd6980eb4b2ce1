//! The run of one comparison: probe both, compare, explain.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Ctx, Error, Object, Result, Retry, Workflow,
    store::{DateTime, Timestamp},
};

use crate::{
    AttachExplanation, CompareError, Comparison, Earlier, EnvPair, FailComparison,
    GetComparisonsForHistory, ReportStep, SaveProbe, SaveResult, Status, Vault, VaultError,
    diff::{DiffOptions, EnvDiff, Severity, Unsteady, compute, settle},
    envelope::{Side, SignalEnvelope},
    explain::{Explainer, Explanation, HistorySummary, Labels, summarize},
    probe::{Method, ProbeOptions, ProbeRequest, Prober},
    sampling::{Asked, Samples, is_worth_a_retry, is_worth_sampling, sample},
    trend::{Past, Trend},
};

/// Earlier comparisons that a new one is held against.
const HISTORY: u32 = 10;
/// Of those, how many the explainer gets.
const TOLD: usize = 3;
/// How long one attempt to explain may take.
const EXPLAINS_FOR: Duration = Duration::from_mins(1);
/// How an explanation is tried before the result is complete without it. A diff that is done must
/// not fail because an explainer is slow: all attempts fit into the time of a comparison.
const EXPLAINS: Retry = Retry::exponential(Duration::from_secs(2)).limit(2);
/// When an explanation that failed is tried again.
const LATER: [Duration; 3] =
    [Duration::from_secs(30), Duration::from_mins(5), Duration::from_hours(1)];

/// Staging and production have different hosts by nature.
const OPTIONS: DiffOptions = DiffOptions { expect_requested: true };

/// Compares two environments.
#[derive(Clone)]
pub struct CompareEnvironments {
    /// Probes the environments.
    pub prober: Prober,
    /// Explains the differences.
    pub explainer: Arc<dyn Explainer>,
    /// Decrypts URLs with secrets in them.
    pub vault: Vault,
}

/// The input of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareInput {
    /// The key of the pair.
    pub pair: String,
    /// The comparison.
    pub comparison_id: String,
    /// The compared URLs, without secrets.
    pub comparison: Comparison,
    /// The URLs, encrypted, if there are secrets in them.
    pub sealed: Option<String>,
}

impl Workflow for CompareEnvironments {
    const NAME: &'static str = "compare-environments";
    type Input = CompareInput;
    type Output = Status;

    async fn run(&self, ctx: &Ctx, input: CompareInput) -> Result<Status> {
        match self.compare(ctx, &input).await {
            Ok(status) => Ok(status),
            Err(error) => {
                let (code, message) = (error.code().to_owned(), error.to_string());
                let (id, error) = (input.comparison_id.clone(), CompareError { code, message });
                let failed = FailComparison { comparison_id: id, error };
                ctx.call(EnvPair::at(&input.pair), failed).await?;
                Ok(Status::Failed)
            }
        }
    }
}

impl CompareEnvironments {
    async fn compare(&self, ctx: &Ctx, input: &CompareInput) -> Result<Status> {
        let (id, pair) = (&input.comparison_id, || EnvPair::at(&input.pair));
        let now = ctx.now().await?;
        self.tell(ctx, input, "probing").await?;
        let left = ctx.step("probe-left", async || self.probe(input, Side::Left, now).await);
        let right = ctx.step("probe-right", async || self.probe(input, Side::Right, now).await);
        let (left, right) = ctx.join(left, right).await?;
        let (left, right, unsteady) = self.look_again(ctx, input, now, (left, right)).await?;
        for (side, envelope) in [(Side::Left, &left), (Side::Right, &right)] {
            let envelope = envelope.clone();
            let save = SaveProbe { comparison_id: id.clone(), side, envelope };
            if !ctx.call(pair(), save).await? {
                return Ok(Status::Failed);
            }
        }
        self.tell(ctx, input, "comparing").await?;
        // Pure: a replay comes to the same.
        let diff = settle(compute(id, &left, &right, OPTIONS), &unsteady);
        let ask = GetComparisonsForHistory { comparison_id: id.clone(), limit: HISTORY };
        let earlier = ctx.call(pair(), ask).await?;
        let past: Vec<Past> = earlier.iter().map(|it| it.past.clone()).collect();
        let trend = Trend::of(&diff, &past);
        self.tell(ctx, input, "explaining").await?;
        let explained = self.explain(ctx, input, &diff, &trend, &earlier).await;
        let (explanation, explanation_error) = match explained {
            Ok(explanation) => (Some(explanation), None),
            Err(error) => (None, Some(why_not(&error, is_refused(&error)))),
        };
        let is_tried_again = explanation_error.as_ref().is_some_and(|it| it.code != REFUSED);
        let saved = SaveResult {
            comparison_id: id.clone(),
            diff: diff.clone(),
            trend: trend.clone(),
            explanation,
            explanation_error,
        };
        if !ctx.call(pair(), saved).await? {
            return Ok(Status::Failed);
        }
        if is_tried_again {
            self.explain_later(ctx, input, &diff, &trend, &earlier).await?;
        }
        Ok(Status::Completed)
    }

    async fn tell(&self, ctx: &Ctx, input: &CompareInput, step: &str) -> Result<()> {
        ctx.progress(step, None);
        let (comparison_id, step) = (input.comparison_id.clone(), step.to_owned());
        ctx.call(EnvPair::at(&input.pair), ReportStep { comparison_id, step }).await
    }

    /// Asks both sides again if they differ, or one gave no answer. What one request says may be
    /// chance.
    async fn look_again(
        &self,
        ctx: &Ctx,
        input: &CompareInput,
        now: Timestamp,
        (left, right): (SignalEnvelope, SignalEnvelope),
    ) -> Result<(SignalEnvelope, SignalEnvelope, Vec<Unsteady>)> {
        let first = compute(&input.comparison_id, &left, &right, OPTIONS);
        let is_retried = [&left, &right].into_iter().any(is_worth_a_retry);
        if !is_worth_sampling(&first) && !is_retried {
            return Ok((left, right, Vec::new()));
        }
        let ask = async || {
            let (prober, left_request) = self.asked(input, Side::Left, now).await?;
            let (_, right_request) = self.asked(input, Side::Right, now).await?;
            let left = Asked { request: left_request, first: &left };
            let right = Asked { request: right_request, first: &right };
            Ok(Box::pin(sample(&prober, &left, &right, OPTIONS)).await)
        };
        let samples: Samples = ctx.step("sample", ask).await?;
        let (left, right) = samples.all(&left, &right);
        Ok((left, right, samples.unsteady))
    }

    async fn probe(
        &self,
        input: &CompareInput,
        side: Side,
        now: Timestamp,
    ) -> Result<SignalEnvelope> {
        let (prober, request) = self.asked(input, side, now).await?;
        Ok(prober.probe(&request).await)
    }

    /// The request to a side, and the prober that sends it.
    async fn asked(
        &self,
        input: &CompareInput,
        side: Side,
        now: Timestamp,
    ) -> Result<(Prober, ProbeRequest)> {
        let Comparison { left_url, right_url, head, .. } = input.comparison.clone();
        let [left_url, right_url] = match &input.sealed {
            None => [left_url, right_url],
            Some(sealed) => self.vault.open(sealed).map_err(|error| match &error {
                VaultError::Store(_) => Error::retryable(&error).with_code(error.code()),
                VaultError::Seal(_) | VaultError::Unreadable => {
                    Error::terminal(&error).with_code(error.code())
                }
            })?,
        };
        let url = match side {
            Side::Left => left_url,
            Side::Right => right_url,
        };
        let method = if head { Method::Head } else { Method::Get };
        let options = ProbeOptions { method, ..self.prober.options().clone() };
        let comparison_id = input.comparison_id.clone();
        let request = ProbeRequest { comparison_id, side, url, now_ms: now.0 };
        Ok((self.prober.with_options(options), request))
    }

    /// A comparison without an explanation is a result all the same.
    async fn explain(
        &self,
        ctx: &Ctx,
        input: &CompareInput,
        diff: &EnvDiff,
        trend: &Trend,
        earlier: &[Earlier],
    ) -> Result<Explanation> {
        let shown = input.comparison.without_secrets();
        let Comparison { left_url, right_url, left_label, right_label, .. } = &shown;
        let labels = Labels {
            left: left_label.as_deref().unwrap_or(left_url),
            right: right_label.as_deref().unwrap_or(right_url),
        };
        let history = earlier.iter().take(TOLD).map(told).collect();
        let summary = summarize(labels, diff, trend, history);
        let ask = async || {
            let explained = self.explainer.explain(&summary).await;
            explained.map_err(|error| match error.is_worth_a_retry() {
                true => Error::retryable(&error).with_code(error.code()),
                false => Error::terminal(&error).with_code(error.code()),
            })
        };
        ctx.step("explain", ask).retry(EXPLAINS).timeout(EXPLAINS_FOR).await
    }

    async fn explain_later(
        &self,
        ctx: &Ctx,
        input: &CompareInput,
        diff: &EnvDiff,
        trend: &Trend,
        earlier: &[Earlier],
    ) -> Result<()> {
        for (number, wait) in LATER.into_iter().enumerate() {
            ctx.sleep("explain-later", wait).await?;
            let explained = self.explain(ctx, input, diff, trend, earlier).await;
            let is_hopeless = explained.as_ref().is_err_and(is_refused);
            if explained.is_ok() || is_hopeless || number + 1 == LATER.len() {
                let error = explained.as_ref().err().map(|it| why_not(it, true));
                let (comparison_id, explanation) = (input.comparison_id.clone(), explained.ok());
                let attach = AttachExplanation { comparison_id, explanation, error };
                ctx.call(EnvPair::at(&input.pair), attach).await?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The end of a message about an explanation that will not come.
pub(crate) const GIVEN_UP: &str = "it is not tried again";

/// The code of an explainer that refuses, however often it is asked.
const REFUSED: &str = "explainer_refused";

fn is_refused(error: &Error) -> bool {
    error.code() == REFUSED
}

/// Why there is no explanation, and whether one may come.
fn why_not(error: &Error, is_final: bool) -> CompareError {
    let next = if is_final { GIVEN_UP } else { "it is tried again within an hour" };
    CompareError { code: error.code().to_owned(), message: format!("{error}; {next}") }
}

/// An earlier comparison in the words of an explainer.
fn told(earlier: &Earlier) -> HistorySummary {
    let worst = earlier.past.findings.iter().map(|it| it.severity).min();
    HistorySummary {
        at: DateTime::of(Timestamp(earlier.completed_at))
            .map_or_else(String::new, |it| it.to_string()),
        severity: worst.unwrap_or(Severity::Info),
        findings: earlier.past.findings.len() as u64,
        summary: earlier.summary.clone(),
    }
}
