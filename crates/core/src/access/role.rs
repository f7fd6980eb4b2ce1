use serde::{Deserialize, Serialize};

/// The role of a principal. Each role may do what the roles before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Uses the routes of applications within its organization.
    Member,
    /// Uses the whole API and the console, except tokens and keys.
    Operator,
    /// Creates tokens and keys.
    Admin,
}

steadfast_store::texts! {
    Role { Viewer = "viewer", Member = "member", Operator = "operator", Admin = "admin" }
}

impl Role {
    /// The name of the role: `viewer`, `member`, `operator` or `admin`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
