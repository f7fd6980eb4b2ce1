//! Parts of a program that other crates define, such as the routes of a serving crate.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
};

/// A part of a program that another crate defines. An [`App`](super::App) holds one of each type.
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

    pub(super) fn get_mut<E: Extension>(&mut self) -> &mut E {
        let part = self.0.entry(TypeId::of::<E>()).or_insert_with(Part::of::<E>);
        part.value.downcast_mut().expect("the key is the type of the value")
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (id, theirs) in other.0 {
            match self.0.get_mut(&id) {
                Some(ours) => (ours.merge)(&mut ours.value, theirs.value),
                None => drop(self.0.insert(id, theirs)),
            }
        }
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.values().flat_map(|it| (it.problems)(&it.value))
    }
}
