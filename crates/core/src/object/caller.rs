//! The caller of a turn.

use std::sync::Arc;

use crate::Principal;

/// The caller of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// The program itself: another turn, a run, a consumer, an alarm, a route of an application.
    #[default]
    Internal,
    /// A caller outside of the program without a credential: access is open.
    Anonymous,
    /// A caller outside of the program with a credential.
    Principal(Arc<Principal>),
}

impl Caller {
    /// The principal, if the caller has a credential.
    pub fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Principal(it) => Some(it),
            Self::Internal | Self::Anonymous => None,
        }
    }
}
