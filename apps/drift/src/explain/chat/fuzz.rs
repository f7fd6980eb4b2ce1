//! Fuzz target: answers of a chat API.

use steadfast_egress::{Answer, fuzz::assert_short};

use super::{
    super::explanation::{ITEMS_MAX, TEXT_MAX},
    Manner, explanation,
};

/// The body of an answer.
pub fn chat(data: &[u8]) {
    let answer = Answer::of_body(data);
    assert_short(&answer.refusal());
    // A request is repeated without a parameter at most three times.
    let mut manner = Some(Manner::FULL);
    for _ in 0..4 {
        manner = manner.and_then(|it| it.without(&answer));
    }
    assert_eq!(manner, None, "the request is repeated forever");
    let found = match explanation(data) {
        Ok(found) => found,
        Err(error) => return assert_short(&error.to_string()),
    };
    assert!(found.ranked_causes.len() <= ITEMS_MAX && found.actions.len() <= ITEMS_MAX);
    assert!(found.notes.len() <= ITEMS_MAX);
    assert!(found.ranked_causes.is_sorted_by(|a, b| b.confidence <= a.confidence));
    let causes = found.ranked_causes.iter().flat_map(|it| it.evidence.iter().chain([&it.cause]));
    let actions = found.actions.iter().flat_map(|it| [&it.action, &it.why]);
    for text in causes.chain(actions).chain(&found.notes).chain([&found.summary]) {
        assert!(text.chars().count() <= TEXT_MAX);
        assert!(!text.chars().any(|it| it.is_control() && it != '\n'), "{text:?}");
    }
    let again = found.clone().checked();
    assert_eq!(again.as_ref(), Ok(&found), "an explanation within bounds was changed");
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers_become_explanations_or_short_errors() {
        steadfast_mutations::run("chat", super::chat, 1_000);
    }
}
