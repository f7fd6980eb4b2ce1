//! Times on the wire.

pub(crate) use steadfast_api::rfc3339;
