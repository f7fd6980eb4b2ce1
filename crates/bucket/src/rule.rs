//! Rules that send events about blobs to queues.

use serde::{Deserialize, Serialize};
use steadfast_store::queue_address;

use crate::{BlobAction, BucketError, KEY_BYTES_MAX};

/// A group of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventType {
    /// PutObject, CopyObject, CompleteMultipartUpload.
    ObjectCreate,
    /// DeleteObject, LifecycleDeletion.
    ObjectDelete,
}

steadfast_store::texts! {
    EventType { ObjectCreate = "object-create", ObjectDelete = "object-delete" }
}

impl EventType {
    /// The stored name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn has(self, action: BlobAction) -> bool {
        match self {
            EventType::ObjectCreate => !action.is_deletion() && action != BlobAction::Unknown,
            EventType::ObjectDelete => action.is_deletion(),
        }
    }
}

/// A rule that sends events to a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = BucketRule))]
pub struct Rule {
    /// Its id in the bucket.
    pub id: String,
    /// object-create (put, copy, completed upload), object-delete (deletions, including those by a
    /// lifecycle rule).
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub events: Vec<EventType>,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys that end with this.
    pub suffix: String,
    /// The target queue.
    pub queue: String,
}

impl Rule {
    /// A rule for all keys.
    pub fn new(id: &str, events: &[EventType], queue: &str) -> Self {
        let (id, events, queue) = (id.into(), events.to_vec(), queue.into());
        Self { id, events, queue, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), BucketError> {
        check_id(&self.id)?;
        let wrong = |field, rule: &str| Err(BucketError::Argument { field, rule: rule.into() });
        if self.events.is_empty() {
            return wrong("events", "must list object-create, object-delete or both");
        }
        if KEY_BYTES_MAX < self.prefix.len() || KEY_BYTES_MAX < self.suffix.len() {
            return wrong("prefix", "and suffix must have 1,024 bytes at most");
        }
        if queue_address(&self.queue).is_err() {
            return wrong(
                "queue",
                "must be the name of a queue: 1 to 64 letters, digits, `-`, `_`, `.`",
            );
        }
        Ok(())
    }

    /// Whether the rule sends an event for this action and key.
    pub fn sends(&self, action: BlobAction, key: &str) -> bool {
        self.events.iter().any(|it| it.has(action))
            && key.starts_with(&self.prefix)
            && key.ends_with(&self.suffix)
    }

    /// An event type that both rules send for some key. Prefixes or suffixes overlap if one begins
    /// or ends with the other.
    fn overlaps(&self, other: &Rule) -> Option<EventType> {
        let shared = self.events.iter().find(|it| other.events.contains(it))?;
        let (a, b) = (&self.prefix, &other.prefix);
        let (x, y) = (&self.suffix, &other.suffix);
        let prefixes = a.starts_with(b.as_str()) || b.starts_with(a.as_str());
        let suffixes = x.ends_with(y.as_str()) || y.ends_with(x.as_str());
        (prefixes && suffixes).then_some(*shared)
    }
}

/// Checks an id. Ids of rules are parts of URL paths.
pub(crate) fn check_id(id: &str) -> Result<(), BucketError> {
    let fits = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    if (1..=64).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    let rule = "must have 1 to 64 letters, digits, `-`, `_` or `.`".into();
    Err(BucketError::Argument { field: "id", rule })
}

/// Adds a rule, or replaces the rule with its id. Overlapping rules are refused: each change sends
/// one message.
pub(crate) fn put(rules: &mut Vec<Rule>, mut rule: Rule) -> Result<(), BucketError> {
    rule.check()?;
    rule.events.sort();
    rule.events.dedup();
    let others = rules.iter().filter(|it| it.id != rule.id);
    if let Some((other, action)) = others.clone().find_map(|it| Some((it, rule.overlaps(it)?))) {
        let (other, action) = (other.id.clone(), action.name());
        return Err(BucketError::Overlap { rule: rule.id, other, action });
    }
    const RULES_MAX: usize = 100;
    if RULES_MAX <= others.count() {
        let rule = format!("exceeds the limit of {RULES_MAX} rules");
        return Err(BucketError::Argument { field: "id", rule });
    }
    rules.retain(|it| it.id != rule.id);
    rules.push(rule);
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [EventType; 2] = [EventType::ObjectCreate, EventType::ObjectDelete];

    fn rule(id: &str, events: &[EventType], prefix: &str, suffix: &str) -> Rule {
        Rule { prefix: prefix.into(), suffix: suffix.into(), ..Rule::new(id, events, "q") }
    }

    #[test]
    fn a_rule_sends_the_actions_of_its_events_and_the_keys_between_prefix_and_suffix() {
        let all = rule("a", &BOTH, "in/", ".png");
        assert!(all.sends(BlobAction::CopyObject, "in/x.png"));
        assert!(all.sends(BlobAction::LifecycleDeletion, "in/x.png"));
        assert!(!all.sends(BlobAction::PutObject, "out/x.png"));
        assert!(!all.sends(BlobAction::PutObject, "in/x.gif"));
        assert!(!all.sends(BlobAction::Unknown, "in/x.png"));
        let created = rule("a", &BOTH[..1], "", "");
        assert!(created.sends(BlobAction::CompleteMultipartUpload, "x"));
        assert!(!created.sends(BlobAction::DeleteObject, "x"));
    }

    #[test]
    fn two_rules_that_would_send_the_same_change_are_refused() {
        let mut rules = Vec::new();
        put(&mut rules, rule("a", &BOTH, "in/", "")).unwrap();
        let overlaps = |it: Rule| {
            let mut rules = vec![rule("a", &BOTH, "in/", ".png")];
            matches!(put(&mut rules, it), Err(BucketError::Overlap { .. }))
        };
        assert!(overlaps(rule("b", &BOTH[1..], "in/deep/", "")));
        assert!(overlaps(rule("b", &BOTH, "", "g")));
        assert!(!overlaps(rule("b", &BOTH, "out/", ".png")));
        assert!(!overlaps(rule("b", &BOTH, "in/", ".gif")));
        assert!(!overlaps(rule("a", &BOTH, "in/deep/", ".png")), "it takes its own place");
        let mut rules = vec![rule("a", &BOTH[..1], "in/", "")];
        put(&mut rules, rule("b", &BOTH[1..], "in/", "")).unwrap();
        assert_eq!(rules.len(), 2);
    }

    #[test]
    fn an_invalid_rule_is_refused() {
        for bad in [
            rule("", &BOTH, "", ""),
            rule("a/b", &BOTH, "", ""),
            rule("a", &[], "", ""),
            rule("a", &BOTH, &"x".repeat(1_025), ""),
            Rule { queue: "no queue".into(), ..rule("a", &BOTH, "", "") },
        ] {
            assert!(matches!(bad.check(), Err(BucketError::Argument { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_name_of_an_event_type_is_the_stored_one() {
        assert_eq!(BOTH.map(EventType::name), ["object-create", "object-delete"]);
        assert_eq!(
            serde_json::to_value(BOTH).unwrap(),
            serde_json::json!(BOTH.map(EventType::name))
        );
    }
}
