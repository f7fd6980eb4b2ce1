//! D: what is answered.

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity};
use crate::{diff::finding::EACH_TIME, envelope::ProbeResponse};

/// Below this many bytes a difference in size is a detail.
const LENGTH_WARN: u64 = 200;
/// From this many bytes on it is another page.
const LENGTH_CRIT: u64 = 2_000;
/// Fewer sizes than this are no proof of anything critical if one side varies.
const SIZES_CRIT: usize = 3;
/// The same if both vary as much as they are apart: a few sizes may differ randomly.
const SIZES_CRIT_VARYING: usize = 6;

/// D3: the media types differ.
pub(super) fn media_type(scene: &Scene<'_>, found: &mut Found) {
    let Some(change) = scene.diff.content.as_ref().and_then(|it| it.content_type.as_ref()) else {
        return;
    };
    if !change.changed {
        return;
    }
    let major = |it: &str| it.split('/').next().unwrap_or_default().to_owned();
    let (severity, message) = match (&change.left, &change.right) {
        (Some(left), Some(right)) if major(left) != major(right) => {
            (Severity::Critical, format!("The content is of another kind: {left} and {right}"))
        }
        (Some(left), Some(right)) => {
            (Severity::Warn, format!("The content type differs: {left} and {right}"))
        }
        (None, _) => (Severity::Warn, "The left side names no content type".to_owned()),
        (_, None) => (Severity::Warn, "The right side names no content type".to_owned()),
    };
    let evidence = Evidence::new(Section::Content, ["content-type"]);
    found.push(
        DiffFinding::new(Code::ContentTypeDrift, Category::Content, severity, message, evidence)
            .values(change.left.as_deref(), change.right.as_deref())
            .advise("Look for an error page, a login page or another serializer on one side."),
    );
}

/// D4: the bodies differ although everything says that they are the same thing; or one breaks off.
pub(super) fn body(scene: &Scene<'_>, found: &mut Found) {
    let Some(content) = &scene.diff.content else { return };
    let evidence = || Evidence::new(Section::Content, ["body-hash"]);
    let (code, category) = (Code::BodyHashDrift, Category::Content);
    let left = scene.left_probe.response.body_error.map(|it| it.as_str());
    let right = scene.right_probe.response.body_error.map(|it| it.as_str());
    if left.is_some() != right.is_some() {
        let side = if left.is_some() { "left" } else { "right" };
        let message = format!("The body of the {side} side breaks off");
        found.push(
            DiffFinding::new(code, category, Severity::Warn, message, evidence())
                .values(left.or(Some("complete")), right.or(Some("complete")))
                .advise("Look for timeouts and broken compression between server and client."),
        );
        return;
    }
    let is_same = |changed: Option<bool>| changed != Some(true);
    let status = scene.diff.status.as_ref().map(|it| it.changed);
    let kind = content.content_type.as_ref().map(|it| it.changed);
    let Some(change) = content.body_hash.as_ref().filter(|it| it.changed) else { return };
    // A hash on one side only is no difference of bodies: HEAD and empty answers have none.
    let is_pair = change.left.is_some() && change.right.is_some();
    if !is_pair || !is_same(status) || !is_same(kind) {
        return;
    }
    let message = "The content differs, with the same status and content type";
    found.push(
        DiffFinding::new(code, category, Severity::Critical, message, evidence())
            .values(change.left.as_deref(), change.right.as_deref())
            .advise("Compare the deployed versions, feature flags and data of both sides."),
    );
}

/// D5: the sizes differ. Where they differ from request to request, what is between the ranges of
/// both sides is the difference.
pub(super) fn length(scene: &Scene<'_>, found: &mut Found) {
    let Some(change) = scene.diff.content.as_ref().and_then(|it| it.content_length.as_ref()) else {
        return;
    };
    let (Some(left), Some(right)) = (change.left, change.right) else { return };
    let (left, right) = (Sizes::of(scene.left_probe, left), Sizes::of(scene.right_probe, right));
    let is_varying = left.is_varying() || right.is_varying();
    let gap = left.gap(&right);
    let delta = if gap == 0 { left.first.abs_diff(right.first) } else { gap };
    let is_other_status = scene.diff.status.as_ref().is_some_and(|it| it.changed);
    if delta == 0 {
        return;
    }
    let severity = match delta {
        ..LENGTH_WARN => Severity::Info,
        LENGTH_WARN..LENGTH_CRIT => Severity::Warn,
        // Another status has another page: its size is no news of its own.
        _ if is_other_status => Severity::Warn,
        _ if is_varying && (gap == 0 || !left.is_proof(&right)) => Severity::Warn,
        _ => Severity::Critical,
    };
    let is_each_time = is_varying && 0 < gap;
    let (message, note) = match is_each_time {
        true => (format!("The size differs by {delta} bytes or more each time"), Some(EACH_TIME)),
        false => (format!("The size differs by {delta} bytes"), None),
    };
    let mut evidence = Evidence::new(Section::Content, ["content-length"]);
    evidence.note = note.map(str::to_owned);
    let code = Code::ContentLengthDrift;
    found.push(
        DiffFinding::new(code, Category::Content, severity, message, evidence)
            .values(Some(&left.shown()), Some(&right.shown()))
            .advise("Compare both bodies: look for missing parts, other data or another template."),
    );
}

/// How large the bodies of a side are.
struct Sizes {
    first: u64,
    min: u64,
    max: u64,
    count: usize,
}

impl Sizes {
    fn of(probe: &ProbeResponse, first: u64) -> Self {
        let all = || probe.samples_bytes.iter().copied().chain([first]);
        let (min, max) = (all().min().unwrap_or(first), all().max().unwrap_or(first));
        Self { first, min, max, count: probe.samples_bytes.len() }
    }

    fn is_varying(&self) -> bool {
        self.min < self.max
    }

    /// The bytes between both ranges; none if they meet.
    fn gap(&self, other: &Self) -> u64 {
        let above = self.min.saturating_sub(other.max);
        above.max(other.min.saturating_sub(self.max))
    }

    /// Whether two ranges that do not meet are no chance.
    fn is_proof(&self, other: &Self) -> bool {
        let both_vary = self.is_varying() && other.is_varying();
        let is_far = (self.max - self.min).max(other.max - other.min) < self.gap(other) / 2;
        let needed = if both_vary && !is_far { SIZES_CRIT_VARYING } else { SIZES_CRIT };
        needed <= self.count.min(other.count)
    }

    fn shown(&self) -> String {
        match self.is_varying() {
            true => format!("{} to {} in {} requests", self.min, self.max, self.count),
            false => self.first.to_string(),
        }
    }
}
