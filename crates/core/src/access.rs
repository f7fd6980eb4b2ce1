//! Access: which principal a request is from, and what that principal may do.

mod audit;
mod scope;
mod sessions;
mod tokens;

pub use self::{
    audit::{Audit, AuditEvent, AuditRecord},
    scope::{Principal, Resource, ResourceKind, Role, Scope, ScopeError, Verb},
    sessions::{NewSession, SESSION_IDLE, SESSION_MAX, Session, SessionId, Sessions},
    tokens::{
        Denied, NewToken, Token, TokenError, TokenSnapshot, TokenSpec, Tokens, is_closed,
        is_organization,
    },
};

#[cfg(test)]
mod tests;
