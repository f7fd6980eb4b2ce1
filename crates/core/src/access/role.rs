use serde::{Deserialize, Serialize};

/// The role of a principal. Each role may do what the roles before it may.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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

impl Role {
    /// All roles, in the order of their rights.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Member, Self::Operator, Self::Admin];

    /// The name of the role: `viewer`, `member`, `operator` or `admin`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
