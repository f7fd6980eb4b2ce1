//! Fuzz target: answers of Workers AI.

use steadfast_egress::{Answer, fuzz::assert_short};

use super::{LABEL_BYTES_MAX, LABELS_MAX, labels};

/// The body of an answer.
pub fn workers_ai(data: &[u8]) {
    let answer = Answer::of_body(data);
    assert_short(&answer.refusal());
    match labels(&answer) {
        Ok(labels) => {
            assert!((1..=LABELS_MAX).contains(&labels.len()));
            assert!(labels.is_sorted_by(|a, b| b.score <= a.score));
            for it in &labels {
                assert!((0.0..=1.0).contains(&it.score), "{}", it.score);
                assert!((1..=LABEL_BYTES_MAX).contains(&it.label.len()), "{}", it.label);
                assert!(!it.label.chars().any(char::is_control) && it.label.trim() == it.label);
            }
        }
        Err(error) => assert_short(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers_become_labels_or_short_errors() {
        steadfast_mutations::run("workers_ai", super::workers_ai, 2_000);
    }
}
