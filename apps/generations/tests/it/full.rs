//! A library that refuses everything.

use steadfast_core::{Error, Handle, Object, Turn};
use steadfast_generations::{DeleteGeneration, GenerationChanged, Library};

/// A library that takes nothing.
#[derive(Clone)]
pub(crate) struct Full;

impl Object for Full {
    const CLASS: &'static str = Library::CLASS;
    type Calls = (GenerationChanged, DeleteGeneration);
}

fn full() -> Error {
    Error::terminal("the library is full").with_code("library_full")
}

impl Handle<GenerationChanged> for Full {
    const NAME: &'static str = <Library as Handle<GenerationChanged>>::NAME;
    type Reply = ();

    fn handle(&self, _: &Turn<Self>, _: GenerationChanged) -> Result<(), Error> {
        Err(full())
    }
}

impl Handle<DeleteGeneration> for Full {
    const NAME: &'static str = <Library as Handle<DeleteGeneration>>::NAME;
    type Reply = ();

    fn handle(&self, _: &Turn<Self>, _: DeleteGeneration) -> Result<(), Error> {
        Err(full())
    }
}
