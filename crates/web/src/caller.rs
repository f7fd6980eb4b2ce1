//! `Caller`: a client that acts for the caller of a route.

use std::ops::Deref;

use axum::{extract::FromRequestParts, http::request::Parts};
use steadfast_api::Code;
use steadfast_core::{Client, Principal, Runtime, object};

use crate::Problem;

/// Acts for the caller of a route: turns see it in `turn.caller()`. Handlers take it as an
/// argument; it derefs to a [`Client`]. `State<Runtime>` acts as the program itself instead.
///
/// ```
/// use axum::{Json, extract::Path};
/// use steadfast_web::{Caller, Problem};
///
/// async fn say(caller: Caller, room: Path<String>, text: String) -> Result<String, Problem> {
///     Ok(caller.call_json("chat", &room, "say", &text).await?)
/// }
/// ```
#[derive(Clone)]
pub struct Caller {
    client: Client,
    caller: object::Caller,
}

impl Caller {
    /// For servers: a client that acts for a caller. Put it into the extensions of a request.
    pub fn new(runtime: &Runtime, caller: object::Caller) -> Self {
        Self { client: runtime.by(caller.clone()), caller }
    }

    /// The principal of the request; `None` while access is open.
    pub fn principal(&self) -> Option<&Principal> {
        self.caller.principal()
    }

    /// The organization that the caller is limited to. An application shows such a caller nothing
    /// of other organizations, not even that it exists.
    pub fn organization(&self) -> Option<&str> {
        self.principal()?.organization.as_deref()
    }
}

impl Deref for Caller {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        let detail = "the caller is unknown; add the route to the program with `routes`";
        caller.ok_or_else(|| Problem::of(Code::Internal, detail))
    }
}
