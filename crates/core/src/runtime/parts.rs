//! The parts of a running program, those that other crates define, such as the routes of a serving
//! crate, and the stored work that no part serves.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use steadfast_bucket::seal_keys;
use steadfast_store::{EntityId, EntityKind, Entropy, Seal, Store, StoreError};

use crate::{
    Audit, BucketError, BucketSpec, Buckets, DispatcherOptions, Objects, Queues, RetentionSettings,
    Runs, Sessions, Sweeper, Tokens, process::Processes,
};

/// The parts of a program, on one store.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: Objects,
    pub(crate) processes: Processes,
    pub(crate) runs: Runs,
    pub(crate) queues: Queues,
    pub(crate) buckets: Option<Buckets>,
    pub(crate) declared_buckets: Vec<BucketSpec>,
    pub(crate) tokens: Tokens,
    pub(crate) audit: Audit,
    pub(crate) sessions: Sessions,
    pub(crate) seal: Seal,
    pub(crate) extensions: Extensions,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) dispatcher_options: DispatcherOptions,
    pub(crate) retention: RetentionSettings,
}

impl Parts {
    /// Seals secrets again that an earlier key sealed, and authenticates the audit log again.
    pub(crate) async fn seal_secrets(&self) -> Result<(), BucketError> {
        let (store, seal) = (&*self.store, &self.seal);
        if seal.fingerprint().is_err() {
            return Ok(());
        }
        let count = seal_keys(store, seal).await?;
        if 0 < count {
            tracing::info!(count, "access keys are sealed with the new key");
        }
        self.audit.seal_head().await?;
        Ok(seal.record(store).await?)
    }

    pub(crate) fn sweeper(&self) -> Sweeper {
        Sweeper {
            store: self.store.clone(),
            runs: self.runs.clone(),
            queues: self.queues.clone(),
            buckets: self.buckets.clone(),
            retention: self.retention,
        }
    }
}

/// A program that ends together with its async runtime delivers nothing more; the next process
/// takes over its work.
impl Drop for Parts {
    fn drop(&mut self) {
        self.queues.let_go();
        self.runs.let_go();
    }
}

/// A part of a program that another crate defines. An [`App`](crate::App) holds one of each type.
pub trait Extension: Default + Send + Sync + 'static {
    /// Adds the part of an application that is merged into this one.
    fn merge(&mut self, other: Self);

    /// The problems of this part; a program with problems does not start.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

type Value = Box<dyn Any + Send + Sync>;

/// An extension without its type. [`Extension`] cannot be a trait object: `merge` takes `Self`.
struct Part {
    value: Value,
    merge: fn(&mut Value, Value),
    problems: fn(&Value) -> Vec<String>,
}

impl Part {
    fn of<E: Extension>() -> Self {
        Self {
            value: Box::new(E::default()),
            merge: |ours, theirs| {
                if let (Some(ours), Ok(theirs)) = (ours.downcast_mut::<E>(), theirs.downcast()) {
                    ours.merge(*theirs);
                }
            },
            problems: |it| it.downcast_ref::<E>().map_or_else(Vec::new, E::problems),
        }
    }
}

/// The extensions of a program, by type.
#[derive(Default)]
pub(crate) struct Extensions(HashMap<TypeId, Part>);

impl Extensions {
    pub(crate) fn get<E: Extension>(&self) -> Option<&E> {
        self.0.get(&TypeId::of::<E>())?.value.downcast_ref()
    }

    pub(crate) fn get_mut<E: Extension>(&mut self) -> &mut E {
        let part = self.0.entry(TypeId::of::<E>()).or_insert_with(Part::of::<E>);
        part.value.downcast_mut().expect("the key is the type of the value")
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (id, theirs) in other.0 {
            match self.0.get_mut(&id) {
                Some(ours) => (ours.merge)(&mut ours.value, theirs.value),
                None => drop(self.0.insert(id, theirs)),
            }
        }
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.values().flat_map(|it| (it.problems)(&it.value))
    }
}

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
