//! Why an address is not reached.

/// Why an address is not reached. Nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The text is not an address that we fetch.
    #[error("{message}")]
    InvalidUrl {
        /// The reason, for people.
        message: String,
    },
    /// The address is not public, and nobody allowed it.
    #[error("{host} is not to be reached: {reason}; ask the operator to allow it")]
    Blocked {
        /// The host as it was understood, or the address it resolved to.
        host: String,
        /// The kind of address.
        reason: String,
    },
    /// The name has no address.
    #[error("{host} does not resolve: {reason}; check the name")]
    Dns {
        /// The name.
        host: String,
        /// The error of the resolver.
        reason: String,
    },
}

impl EgressError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            EgressError::InvalidUrl { .. } => "invalid_url",
            EgressError::Blocked { .. } => "ssrf_blocked",
            EgressError::Dns { .. } => "dns_error",
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        EgressError::InvalidUrl { message: message.into() }
    }

    pub(crate) fn blocked(host: impl Into<String>, reason: impl Into<String>) -> Self {
        EgressError::Blocked { host: host.into(), reason: reason.into() }
    }
}
