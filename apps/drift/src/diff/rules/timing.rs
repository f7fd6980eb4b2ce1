//! E and F: how long it takes, and who answers from where.

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity};
use crate::{diff::contract::Change, envelope::ProbeResponse};

/// If neither side takes as long, nothing is said: it would be noise.
pub const MIN_TIMING_MS: u64 = 50;
/// A difference from which on somebody should look.
pub const ABS_DELTA_WARN_MS: u64 = 300;
/// A difference that users notice.
pub const ABS_DELTA_CRIT_MS: u64 = 1_000;
/// Slower over faster, from which on somebody should look.
pub const RATIO_WARN: f64 = 1.5;
/// Slower over faster that users notice.
pub const RATIO_CRIT: f64 = 2.5;

/// Fewer requests than this are no proof of anything critical, unless there was only one.
const SAMPLES_CRIT: usize = 3;
/// From this many requests on, the slowest one of the faster side may be an accident.
const SAMPLES_MANY: usize = 5;

/// The fastest request of a side, and the slowest that was no accident.
fn range(probe: &ProbeResponse) -> (u64, u64) {
    let mut all = probe.samples_ms.clone();
    all.sort_unstable();
    let (Some(min), Some(max)) = (all.first(), all.last()) else {
        return (probe.duration_ms, probe.duration_ms);
    };
    let high = if all.len() < SAMPLES_MANY { max } else { &all[all.len() - 2] };
    (*min, *high)
}

/// A duration in words.
fn shown(probe: &ProbeResponse) -> String {
    let typical = probe.typical_ms();
    let (min, max) = (probe.samples_ms.iter().min(), probe.samples_ms.iter().max());
    match (min, max) {
        (Some(min), Some(max)) if 1 < probe.samples_ms.len() => {
            format!("{typical} ms ({min} to {max} ms in {} requests)", probe.samples_ms.len())
        }
        _ => format!("{typical} ms"),
    }
}

/// E1: a side is slower, each time it was asked. Says so only beyond a threshold, and returns
/// whether it did.
pub(super) fn duration(scene: &Scene<'_>, found: &mut Found) -> bool {
    let (left_probe, right_probe) = (scene.left_probe, scene.right_probe);
    let (left, right) = (left_probe.typical_ms(), right_probe.typical_ms());
    let (slower, faster) =
        if right < left { (left_probe, right_probe) } else { (right_probe, left_probe) };
    let (slow, fast) = (range(slower).0, range(faster).1);
    if slow < MIN_TIMING_MS || slow <= fast {
        return false;
    }
    let delta = slow - fast;
    // Not the rounded ratio of the diff: 2.496 is not 2.5.
    let ratio = slow as f64 / fast.max(1) as f64;
    let samples = left_probe.samples_ms.len().min(right_probe.samples_ms.len());
    let is_proof = samples == 0 || SAMPLES_CRIT <= samples;
    let severity = if is_proof && (ratio >= RATIO_CRIT || delta >= ABS_DELTA_CRIT_MS) {
        Severity::Critical
    } else if ratio >= RATIO_WARN || delta >= ABS_DELTA_WARN_MS {
        Severity::Warn
    } else {
        return false;
    };
    let side = if left > right { "left" } else { "right" };
    let message = format!("The {side} side is slower by {delta} ms ({ratio:.1} times)");
    let evidence = Evidence::new(Section::Timing, ["duration_ms"]);
    found.push(
        DiffFinding::new(Code::TimingDrift, Category::Timing, severity, message, evidence)
            .values(Some(&shown(left_probe)), Some(&shown(right_probe)))
            .advise("Look at the phases: DNS, connect, TLS or first byte tells who is slow."),
    );
    true
}

/// Whether a difference may explain that a side is slower.
fn weight(is_slower: bool) -> Severity {
    if is_slower { Severity::Warn } else { Severity::Info }
}

/// Puts all that differ of some fields into a finding's evidence and values.
struct Fields {
    keys: Vec<&'static str>,
    left: Vec<String>,
    right: Vec<String>,
}

impl Fields {
    fn new() -> Self {
        Self { keys: Vec::new(), left: Vec::new(), right: Vec::new() }
    }

    fn add<T: ToString>(&mut self, key: &'static str, change: Option<&Change<T>>) {
        let Some(change) = change.filter(|it| it.changed) else { return };
        let shown = |it: &Option<T>| {
            let value = it.as_ref().map_or_else(|| "(absent)".to_owned(), T::to_string);
            format!("{key}: {value}")
        };
        self.keys.push(key);
        self.left.push(shown(&change.left));
        self.right.push(shown(&change.right));
    }

    fn finding(
        self,
        code: Code,
        severity: Severity,
        section: Section,
        what: &str,
    ) -> Option<DiffFinding> {
        if self.keys.is_empty() {
            return None;
        }
        let message = format!("{what}: {}", self.keys.join(", "));
        let evidence = Evidence::new(section, self.keys);
        let finding = DiffFinding::new(code, Category::Platform, severity, message, evidence);
        Some(finding.values(Some(&self.left.join("; ")), Some(&self.right.join("; "))))
    }
}

/// F1: the answers come from different places.
pub(super) fn place(scene: &Scene<'_>, is_slower: bool, found: &mut Found) {
    let Some(cf) = &scene.diff.cf else { return };
    let mut fields = Fields::new();
    fields.add("asn", cf.asn.as_ref());
    fields.add("colo", cf.colo.as_ref());
    fields.add("country", cf.country.as_ref());
    let what = "The answers come from different places";
    let finding = fields.finding(Code::CfContextDrift, weight(is_slower), Section::Cf, what);
    let advice = "Compare from one place before blaming the application for its timing.";
    found.extend(finding.map(|it| it.advise(advice)));
}

/// Different software serves them.
pub(super) fn platform(scene: &Scene<'_>, is_slower: bool, found: &mut Found) {
    let Some(platform) = &scene.diff.platform else { return };
    let mut fields = Fields::new();
    fields.add("powered-by", platform.powered_by.as_ref());
    fields.add("server", platform.server.as_ref());
    fields.add("via", platform.via.as_ref());
    let what = "Different software answers";
    let finding = fields.finding(Code::PlatformDrift, weight(is_slower), Section::Platform, what);
    let advice = "Check that both sides run behind the same proxies and server versions.";
    found.extend(finding.map(|it| it.advise(advice)));
}
