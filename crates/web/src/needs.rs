//! The role that a route requires.

use axum::routing::MethodRouter;
use serde_json::Value;
use steadfast_api::Role;
use utoipa::openapi::{PathItem, Paths, RefOr, Schema};
use utoipa_axum::router::OpenApiRouter;

/// The OpenAPI extension with the required role.
const NEEDS: &str = "x-needs-role";

/// The value for routes that are open to everybody.
const NONE: &str = "none";

/// The OpenAPI extension of routes that principals of organizations may use.
const FOR_ORGANIZATIONS: &str = "x-organizations";

/// The OpenAPI extension of routes whose changes are not in the audit log.
const UNRECORDED: &str = "x-unrecorded";

/// The role that a route requires of its callers. Every route declares it; there is no default.
/// The server enforces it while access is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    role: Option<Role>,
    is_for_organizations: bool,
    is_unrecorded: bool,
}

impl Needs {
    /// No role: callers without a credential may use the route. For health checks, assets, logins,
    /// and routes that check their own secret.
    pub const NOTHING: Self = Self { role: None, is_for_organizations: true, is_unrecorded: false };

    /// This role, in any organization. Tokens of organizations reach only such routes. Their
    /// handlers take the tenant from [`Caller::organization`](crate::Caller::organization), never
    /// from the path alone.
    pub const fn of_organization(role: Role) -> Self {
        Self { role: Some(role), is_for_organizations: true, is_unrecorded: false }
    }

    /// The same, without records in the audit log for requests that succeed. A record is one more
    /// commit: leave it out on a route for many small writes, whose own data says who wrote them.
    #[must_use]
    pub const fn unrecorded(self) -> Self {
        Self { is_unrecorded: true, ..self }
    }

    /// Whether the audit log leaves changes by this route out.
    pub fn is_unrecorded(self) -> bool {
        self.is_unrecorded
    }

    /// Whether principals of organizations may use the route.
    pub fn is_for_organizations(self) -> bool {
        self.is_for_organizations
    }

    /// The minimum role.
    pub fn role(self) -> Option<Role> {
        self.role
    }

    /// The name in the OpenAPI document: a role, or `none`.
    pub fn name(self) -> &'static str {
        self.role.map_or(NONE, Role::name)
    }

    /// Reads the declaration of an operation in an OpenAPI document.
    pub(crate) fn of(operation: &Value) -> Option<Self> {
        match operation[NEEDS].as_str()? {
            NONE => Some(Self::NOTHING),
            name => {
                let role: Role = name.parse().ok()?;
                let is_for_organizations = operation[FOR_ORGANIZATIONS] == true;
                let is_unrecorded = operation[UNRECORDED] == true;
                Some(Self { role: Some(role), is_for_organizations, is_unrecorded })
            }
        }
    }

    /// The declaration in an OpenAPI document.
    pub(crate) fn extensions(self) -> impl Iterator<Item = (&'static str, Value)> {
        let flags = self.role.map(|_| {
            [(FOR_ORGANIZATIONS, self.is_for_organizations), (UNRECORDED, self.is_unrecorded)]
        });
        let flags = flags.into_iter().flatten().filter(|it| it.1);
        let flags = flags.map(|(name, is)| (name, is.into()));
        [(NEEDS, self.name().into())].into_iter().chain(flags)
    }
}

impl From<Role> for Needs {
    fn from(role: Role) -> Self {
        Self { role: Some(role), is_for_organizations: false, is_unrecorded: false }
    }
}

/// Declares the required role of routes: those of `routes!`, those of an `OpenApiRouter` that have
/// not declared one, or a whole `axum::Router`.
///
/// ```
/// use axum::{Router, routing::get};
/// use steadfast_core::App;
/// use steadfast_web::{Role, Serve, needs};
///
/// fn routes() -> Router {
///     Router::new().route("/open", get(async || "yes"))
/// }
///
/// fn app() -> App {
///     App::new("shop").routes("/shop", || needs(Role::Viewer, routes()))
/// }
/// ```
pub fn needs<R: Declare>(needs: impl Into<Needs>, routes: R) -> R::Declared {
    routes.declare(needs.into())
}

/// Routes for which [`needs`] can be declared.
pub trait Declare {
    /// The routes with their required roles.
    type Declared;

    #[doc(hidden)]
    fn declare(self, needs: Needs) -> Self::Declared;
}

/// The routes of `routes!`.
impl<S, E> Declare for (Vec<(String, RefOr<Schema>)>, Paths, MethodRouter<S, E>) {
    type Declared = Self;

    fn declare(mut self, needs: Needs) -> Self {
        self.1.paths.values_mut().for_each(|it| declare(it, needs));
        self
    }
}

impl<S: Clone + Send + Sync + 'static> Declare for OpenApiRouter<S> {
    type Declared = Self;

    fn declare(mut self, needs: Needs) -> Self {
        let paths = &mut self.get_openapi_mut().paths.paths;
        paths.values_mut().for_each(|it| declare(it, needs));
        self
    }
}

fn declare(item: &mut PathItem, needs: Needs) {
    let PathItem { get, put, post, delete, options, head, patch, trace, query, .. } = item;
    let named = [get, put, post, delete, options, head, patch, trace, query].into_iter().flatten();
    for operation in named.chain(item.additional_operations.values_mut()) {
        let extensions = operation.extensions.get_or_insert_default();
        if !extensions.contains_key(NEEDS) {
            extensions.extend(needs.extensions().map(|(name, value)| (name.to_owned(), value)));
        }
    }
}
