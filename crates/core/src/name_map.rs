//! A map by name for what a program registers before it runs: a sorted list. It takes a tenth of
//! the code of a `BTreeMap`, which is compiled for each type of its values.

use std::{slice, vec};

/// Values by name, in the order of the names.
#[derive(Clone, Debug)]
pub struct NameMap<V>(Vec<(&'static str, V)>);

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> NameMap<V> {
    /// Sets a value and returns the one that it replaces.
    pub fn insert(&mut self, name: &'static str, value: V) -> Option<V> {
        match self.find(name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.get_key_value(name).map(|(_, value)| value)
    }

    /// The name as it was registered, and its value.
    pub fn get_key_value(&self, name: &str) -> Option<(&&'static str, &V)> {
        let at = self.find(name).ok()?;
        self.0.get(at).map(|(name, value)| (name, value))
    }

    /// Whether there is a value.
    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &&'static str> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> slice::Iter<'_, (&'static str, V)> {
        self.0.iter()
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(it, _)| (*it).cmp(name))
    }
}

impl<V> Extend<(&'static str, V)> for NameMap<V> {
    fn extend<I: IntoIterator<Item = (&'static str, V)>>(&mut self, values: I) {
        for (name, value) in values {
            self.insert(name, value);
        }
    }
}

impl<V> FromIterator<(&'static str, V)> for NameMap<V> {
    fn from_iter<I: IntoIterator<Item = (&'static str, V)>>(values: I) -> Self {
        let mut all = Self::default();
        all.extend(values);
        all
    }
}

impl<V> IntoIterator for NameMap<V> {
    type IntoIter = vec::IntoIter<(&'static str, V)>;
    type Item = (&'static str, V);

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, V> IntoIterator for &'a NameMap<V> {
    type IntoIter = slice::Iter<'a, (&'static str, V)>;
    type Item = &'a (&'static str, V);

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
