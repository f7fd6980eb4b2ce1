//! The input of an explainer: findings without contents, bounded and without secrets.

use crate::diff::Severity;

/// The most findings that are looked at; the worst come first.
pub(super) const FINDINGS_MAX: usize = 40;
/// The longest text of a finding, in characters.
const TEXT_MAX: usize = 240;
/// From this length on, letters and digits without a space are taken for a secret.
const SECRET_LEN: usize = 28;

/// A comparison, as an explainer gets to see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftSummary {
    /// The label of the left environment.
    pub left: String,
    /// The label of the right environment.
    pub right: String,
    /// The differences, the worst first.
    pub findings: Vec<FindingSummary>,
    /// Differences of the previous comparison that are gone.
    pub resolved: Vec<String>,
    /// Earlier comparisons of the same pair and direction, the latest first.
    pub history: Vec<HistorySummary>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingSummary {
    /// Which rule found it: `STATUS_MISMATCH`.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// The message for people.
    pub message: String,
    /// The value of the left side.
    pub left: Option<String>,
    /// The value of the right side.
    pub right: Option<String>,
    /// Recommended actions.
    pub recommendations: Vec<String>,
    /// Whether it was there before.
    pub standing: Standing,
}

/// Whether a difference was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// There is nothing before.
    #[default]
    Unknown,
    /// It was not there before.
    New,
    /// It was there before.
    Recurring {
        /// In how many of the earlier comparisons.
        times: u64,
    },
    /// It comes and goes.
    Flapping,
}

/// An earlier comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySummary {
    /// When, for people.
    pub at: String,
    /// The worst of it.
    pub severity: Severity,
    /// How many differences it had.
    pub findings: u64,
    /// The summary of its explanation.
    pub summary: Option<String>,
}

impl DriftSummary {
    /// The same, short enough for anybody and without what looks like a secret. Providers that send
    /// it anywhere do this first.
    pub fn sendable(&self) -> Self {
        let short = |it: &String| scrubbed(it);
        let finding = |it: &FindingSummary| FindingSummary {
            code: scrubbed(&it.code),
            message: scrubbed(&it.message),
            left: it.left.as_ref().map(short),
            right: it.right.as_ref().map(short),
            recommendations: it.recommendations.iter().take(3).map(short).collect(),
            ..*it
        };
        let history = |it: &HistorySummary| HistorySummary {
            at: scrubbed(&it.at),
            summary: it.summary.as_ref().map(short),
            ..*it
        };
        Self {
            left: scrubbed(&self.left),
            right: scrubbed(&self.right),
            findings: self.findings.iter().take(FINDINGS_MAX).map(finding).collect(),
            resolved: self.resolved.iter().take(FINDINGS_MAX).map(short).collect(),
            history: self.history.iter().take(3).map(history).collect(),
        }
    }
}

/// A text without control characters, cut, and with long codes masked.
fn scrubbed(text: &str) -> String {
    let is_code = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '=' | '_' | '-');
    let mut out = String::new();
    let mut run = String::new();
    let text: String = text.chars().filter(|it| !it.is_control()).take(2_000).collect();
    for letter in text.chars().chain(Some(' ')) {
        if is_code(letter) {
            run.push(letter);
            continue;
        }
        let has = |test: fn(&u8) -> bool| run.bytes().any(|it| test(&it));
        let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        let is_secret =
            run.len() >= SECRET_LEN && is_mixed || run.len() >= 10 && run.starts_with("eyJ");
        out.push_str(if is_secret { "[masked]" } else { &run });
        out.push(letter);
        run.clear();
    }
    let out = out.trim();
    match out.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn finding(
        code: &str,
        severity: Severity,
        left: &str,
        right: &str,
    ) -> FindingSummary {
        let value = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
        FindingSummary {
            code: code.into(),
            severity,
            message: format!("{code} differs"),
            left: value(left),
            right: value(right),
            recommendations: vec![format!("look at {code}")],
            standing: Standing::Unknown,
        }
    }

    pub(crate) fn summary(findings: Vec<FindingSummary>) -> DriftSummary {
        let (left, right) = ("staging".to_owned(), "production".to_owned());
        DriftSummary { left, right, findings, ..DriftSummary::default() }
    }

    #[test]
    fn what_looks_like_a_secret_is_masked_and_the_rest_stays() {
        for (text, expected) in [
            ("max-age=3600, public", "max-age=3600, public"),
            (
                "https://a.example/some/long/path/of/words",
                "https://a.example/some/long/path/of/words",
            ),
            ("key AKIAIOSFODNN7EXAMPLEAKIAIOSFODNN7 end", "key [masked] end"),
            ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "[masked].[masked].c2ln"),
            ("a\r\nb\u{0}c", "abc"),
        ] {
            assert_eq!(scrubbed(text), expected);
        }
        assert_eq!(scrubbed(&"ü ".repeat(400)).chars().count(), TEXT_MAX + 1);
    }

    #[test]
    fn what_is_sent_is_bounded() {
        let long = finding("X", Severity::Info, &"a ".repeat(9_000), "");
        let mut summary = summary(vec![long; 900]);
        summary.resolved = vec!["b ".repeat(9_000); 900];
        let sendable = summary.sendable();
        assert_eq!(sendable.findings.len(), FINDINGS_MAX);
        assert!(format!("{sendable:?}").len() < 60_000);
    }
}
