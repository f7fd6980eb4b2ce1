//! The requests of both sides: redirects drawn as a chain, and where the time went.

use maud::{Markup, html};

use super::sides;
use crate::{
    CompareResult,
    envelope::{Hop, SignalEnvelope},
};

/// The phases of a request.
const PHASES: [&str; 5] = ["DNS", "connect", "TLS", "first byte", "rest"];

/// The drawing, in its own units.
const WIDTH: f64 = 600.0;
const ROW: usize = 22;

pub(super) fn requests(result: &CompareResult) -> Markup {
    let sides = sides(result);
    let total = |hops: &[Hop]| hops.iter().map(|it| it.timing.total_ms).sum::<f64>();
    // Both are drawn on one scale.
    let longest = sides.iter().map(|it| total(hops(it.1))).fold(1.0, f64::max);
    html! {
        section #timing {
            h2 { "Where the time went" }
            p.legend {
                @for (number, name) in PHASES.iter().enumerate() {
                    span data-part=(number) { (name) } " "
                }
            }
            @for (name, envelope) in sides {
                h3 { (name) " " span.quiet { (format!("{:.0} ms", total(hops(envelope)))) } }
                (waterfall(name, hops(envelope), longest))
                (chain(envelope))
            }
        }
    }
}

/// All requests that were answered, of a probe that failed as well.
fn hops(envelope: Option<&SignalEnvelope>) -> &[Hop] {
    let result = envelope.map(|it| &it.result);
    let response = result.and_then(|it| it.response()).map(|it| it.hops.as_slice());
    let failure = result.and_then(|it| it.failure()).map(|it| it.hops.as_slice());
    response.or(failure).unwrap_or_default()
}

fn waterfall(name: &str, hops: &[Hop], longest: f64) -> Markup {
    let height = ROW * hops.len().max(1);
    let scale = WIDTH / longest;
    let mut begin = 0.0;
    let mut bars = Vec::new();
    for (row, hop) in hops.iter().enumerate() {
        let timing = &hop.timing;
        let tls = timing.tls_ms.unwrap_or(0.0);
        let before = [timing.dns_ms, timing.connect_ms, tls, timing.first_byte_ms];
        let rest = (timing.total_ms - before.iter().sum::<f64>()).max(0.0);
        let mut at = begin;
        for (part, length) in before.into_iter().chain([rest]).enumerate() {
            if 0.0 < length {
                bars.push((part, row, at * scale, length * scale, length));
            }
            at += length;
        }
        begin += timing.total_ms;
    }
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img"
            aria-label={ "Phases of the requests to " (name) } {
            @for (part, row, x, width, length) in bars {
                rect.bar data-part=(part) x=(format!("{x:.1}")) y=(row * ROW + 3)
                    width=(format!("{:.1}", width.max(1.0))) height="16" {
                    title { (PHASES[part]) " " (format!("{length:.1} ms")) }
                }
            }
        }
    }
}

/// From the first URL over each redirect to the last answer.
fn chain(envelope: Option<&SignalEnvelope>) -> Markup {
    let Some(envelope) = envelope else { return html! {} };
    let (response, failure) = (envelope.result.response(), envelope.result.failure());
    let redirects = response.map(|it| it.redirects.as_slice());
    let redirects = redirects.or(failure.map(|it| it.redirects.as_slice())).unwrap_or_default();
    html! {
        ol.chain {
            @for hop in redirects {
                li { span.status { (hop.status) } " " code { (hop.from_url) } }
            }
            @if let Some(it) = response {
                li { span.status { (it.response.status) } " " code { (it.response.final_url) } }
            }
            @if let Some(it) = failure {
                li.error { span.status { (it.error.code.as_str()) } " " (it.error.message) }
            }
        }
    }
}
