//! Stored work that this program does not serve.

use std::{collections::BTreeMap, fmt};

use steadfast_store::{EntityId, EntityKind, StoreError};

use crate::runtime::Parts;

/// Messages of one page.
const PAGE: usize = 500;

/// Maximum messages that are read.
const LOOKED_MAX: usize = 5_000;

/// Pending messages for something that this program does not declare. They stay pending until a
/// program declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unserved {
    /// Its kind: `object class`, `workflow`, `process`, `queue` or `job`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The number of messages.
    pub messages: usize,
    /// Whether there may be more.
    pub or_more: bool,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, messages, or_more } = self;
        let (more, s) =
            (if *or_more { " or more" } else { "" }, if *messages == 1 { "" } else { "s" });
        write!(f, "{messages}{more} message{s} for {kind} `{name}`")
    }
}

impl Parts {
    fn runs_workflow(&self, name: &str) -> bool {
        self.runs.workflows().any(|(it, _)| it == name)
    }

    pub(crate) async fn unserved(&self) -> Result<Vec<Unserved>, StoreError> {
        let (mut after, mut looked, mut or_more) = (0, 0, true);
        let mut waiting: BTreeMap<EntityId, usize> = BTreeMap::new();
        while looked < LOOKED_MAX {
            let page = self.store.pending(None, after, PAGE).await?;
            looked += page.len();
            for message in &page {
                *waiting.entry(message.target.unwrap_or(message.stream)).or_default() += 1;
                after = message.position;
            }
            if page.len() < PAGE {
                or_more = false;
                break;
            }
        }
        let ids: Vec<EntityId> = waiting.keys().copied().collect();
        let mut found: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
        for (id, address) in self.store.addresses(&ids).await? {
            let (class, name) = (address.class(), address.name());
            let (kind, name, is_served) = match address.kind() {
                EntityKind::Object => {
                    ("object class", class, self.objects.classes().any(|it| it == class))
                }
                EntityKind::Run => ("workflow", class, self.runs_workflow(class)),
                // All runs of a workflow share two targets.
                EntityKind::System if class.starts_with("workflow") => {
                    ("workflow", name, self.runs_workflow(name))
                }
                EntityKind::Process => ("process", class, self.processes.contains(class)),
                EntityKind::Queue => ("queue", class, self.queues.declares(class)),
                EntityKind::System if class == "effect" => {
                    ("job", name, self.objects.performs(name))
                }
                EntityKind::System | EntityKind::Stream | EntityKind::Bucket => continue,
            };
            if !is_served {
                let count = waiting.get(&id).copied().unwrap_or_default();
                *found.entry((kind, name.to_owned())).or_default() += count;
            }
        }
        let unserved = |((kind, name), messages)| Unserved { kind, name, messages, or_more };
        Ok(found.into_iter().map(unserved).collect())
    }
}
