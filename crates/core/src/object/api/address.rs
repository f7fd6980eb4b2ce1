//! Addresses of objects, and destinations of messages.

use std::{fmt, marker::PhantomData, time::Duration};

use serde_json::json;
use steadfast_store::{self as store, AddressError, EntityKind, InvalidInput, Json};

use super::{Handle, Object, calls::Lists};
use crate::{Body, object::outgoing::Sending};

/// Names one object of a class: plain data.
pub struct Address<C> {
    name: String,
    class: PhantomData<fn() -> C>,
}

impl<C: Object> Address<C> {
    pub(crate) fn new(name: String) -> Self {
        Self { name, class: PhantomData }
    }

    /// The name within the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn resolve(&self) -> Result<store::Address, store::AddressError> {
        store::Address::new(EntityKind::Object, C::CLASS, &self.name)
    }
}

impl<C> Clone for Address<C> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), class: PhantomData }
    }
}

impl<C: Object> fmt::Debug for Address<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object/{}/{}", C::CLASS, self.name)
    }
}

/// A destination of messages of type `M`: an object that handles them, or a queue of them. `I` is
/// inferred.
pub trait Destination<M, I> {
    #[doc(hidden)]
    fn sending(self, msg: M) -> Result<Sending, InvalidInput>;
}

impl<C: Handle<M>, M: Body, I> Destination<M, I> for Address<C>
where
    C::Calls: Lists<M, I>,
{
    fn sending(self, msg: M) -> Result<Sending, InvalidInput> {
        sending_of_call(self.resolve(), C::NAME, Json::of(&msg))
    }
}

fn sending_of_call(
    target: Result<store::Address, AddressError>,
    message_type: &'static str,
    data: Result<Json, InvalidInput>,
) -> Result<Sending, InvalidInput> {
    let target = target?;
    let metadata = Json::of(&json!({ "to": target.to_string() }))?;
    let (action, data, delay) = ("call", data?, Duration::ZERO);
    Ok(Sending { target, action, message_type, data, metadata, delay, ordered: false })
}
