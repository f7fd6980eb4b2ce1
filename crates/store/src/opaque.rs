//! An `Arc` that hides its value from the compiler's search for `Send` and `Sync`.

use std::{
    any::Any,
    marker::PhantomData,
    ops::Deref,
    sync::{Arc, Weak},
};

/// An `Arc` that is `Send` and `Sync`, whatever its value contains.
///
/// The compiler asks of each future whether it is `Send`. To answer, it visits every type inside of
/// every type that the future holds, and it begins again for each function that has a lifetime. A
/// type that contains half of the program belongs behind this: its value is checked once, where it
/// is made. A deref compares one type id.
pub struct OpaqueArc<T> {
    value: Arc<dyn Any + Send + Sync>,
    /// A function pointer is `Send` and `Sync`, whatever its types are. It takes one as well, so
    /// that the type is exactly the one that the value has.
    kind: PhantomData<fn(T) -> T>,
}

/// A [`Weak`] of an [`OpaqueArc`].
pub struct OpaqueWeak<T> {
    value: Weak<dyn Any + Send + Sync>,
    kind: PhantomData<fn(T) -> T>,
}

impl<T: Any + Send + Sync> OpaqueArc<T> {
    /// Makes one of a value.
    pub fn new(value: T) -> Self {
        Self { value: Arc::new(value), kind: PhantomData }
    }
}

impl<T: Any> OpaqueArc<T> {
    /// The value, if nobody else has it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.value)?.downcast_mut()
    }
}

impl<T> OpaqueArc<T> {
    /// One that does not keep the value.
    pub fn downgrade(&self) -> OpaqueWeak<T> {
        OpaqueWeak { value: Arc::downgrade(&self.value), kind: PhantomData }
    }
}

impl<T> OpaqueWeak<T> {
    /// The value, unless nobody has kept it.
    pub fn upgrade(&self) -> Option<OpaqueArc<T>> {
        self.value.upgrade().map(|value| OpaqueArc { value, kind: PhantomData })
    }
}

impl<T: Any> Deref for OpaqueArc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.downcast_ref().expect("it was made of a value of this type")
    }
}

impl<T> Clone for OpaqueArc<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), kind: PhantomData }
    }
}

impl<T> Clone for OpaqueWeak<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), kind: PhantomData }
    }
}
