//! Several providers, asked by model and by name.

use std::sync::Arc;

use super::{
    error::{ErrorKind, GenerateError},
    provider::{Checked, Model, Provider, Request},
};

/// Providers in the order in which they are asked. Clones share them.
#[derive(Clone, Default)]
pub struct Providers {
    providers: Vec<Arc<dyn Provider>>,
}

impl Providers {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, asked after the others.
    #[must_use]
    pub fn with(mut self, provider: impl Provider) -> Self {
        self.providers.push(Arc::new(provider));
        self
    }

    /// The one with this name, which is what is stored with a task.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|it| it.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.providers.iter()
    }

    /// Models to offer, of all of them.
    pub fn models(&self) -> Vec<Model> {
        self.providers.iter().flat_map(|it| it.models()).collect()
    }

    /// The first provider that knows the model, and what it says to the request.
    pub fn check(&self, request: &Request) -> Result<(&Arc<dyn Provider>, Checked), GenerateError> {
        for provider in &self.providers {
            match provider.check(request) {
                Ok(checked) => return Ok((provider, checked)),
                Err(error) if error.kind == ErrorKind::UnknownModel => {}
                Err(error) => return Err(error),
            }
        }
        Err(GenerateError::unknown_model(&request.model))
    }
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.providers.iter().map(|it| it.name())).finish()
    }
}
