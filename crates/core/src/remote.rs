//! A thing of a program in this process, or the transport to a program in another one.

use std::sync::Arc;

use steadfast_store::{Code, RemoteProblem, StoreError};

/// A program in this process, or in another one.
pub(crate) enum Backend<L, R: ?Sized> {
    Local(L),
    Remote(Arc<R>),
}

impl<L: Clone, R: ?Sized> Clone for Backend<L, R> {
    fn clone(&self) -> Self {
        match self {
            Self::Local(it) => Self::Local(it.clone()),
            Self::Remote(transport) => Self::Remote(transport.clone()),
        }
    }
}

/// The error of a method that is not available for a program in another process.
pub(crate) fn not_remote(advice: &str) -> StoreError {
    StoreError::Remote(Box::new(RemoteProblem {
        code: Code::Conflict,
        detail: format!("the program runs in another process: {advice}"),
        refusal: None,
        is_retryable: false,
    }))
}
