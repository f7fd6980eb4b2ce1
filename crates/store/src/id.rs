//! Addresses and entity ids, positions and versions of messages.

use std::{fmt, str::FromStr, sync::Arc};

use sha2::{Digest, Sha256};

use crate::limits;

/// The position of a message or a turn in the whole store, in commit order. None is used twice. A
/// run that is recorded without a message leaves a gap, and so does a loss that was accepted.
pub type Position = i64;

/// The version of a message in its stream, from 1, without gaps.
pub type Version = i64;

/// The kinds of things that addresses name. The tags are stored: they may never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityKind {
    /// A plain message stream.
    Stream,
    /// An instance of a process.
    Process,
    /// A durable object.
    Object,
    /// One execution of a workflow.
    Run,
    /// A queue.
    Queue,
    /// A bucket.
    Bucket,
    /// A part of the platform itself, such as the scope of an HTTP route.
    System,
}

crate::texts! {
    EntityKind {
        Stream = "stream",
        Process = "process",
        Object = "object",
        Run = "run",
        Queue = "queue",
        Bucket = "bucket",
        System = "system",
    }
}

impl EntityKind {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }

    /// Whether its messages are a state that would be lost with them.
    pub(crate) fn has_state(self) -> bool {
        match self {
            EntityKind::Process | EntityKind::Run => true,
            // The state of an object is in its turns.
            EntityKind::Stream
            | EntityKind::Object
            | EntityKind::Queue
            | EntityKind::Bucket
            | EntityKind::System => false,
        }
    }

    /// Whether entities of this kind end, so that they can be deleted as a whole.
    pub(crate) fn can_end(self) -> bool {
        match self {
            EntityKind::Process | EntityKind::Object | EntityKind::Run => true,
            EntityKind::Stream | EntityKind::Queue | EntityKind::Bucket | EntityKind::System => {
                false
            }
        }
    }

    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        tag.parse().ok()
    }
}

/// Identifies one entity: `kind/class/name`, for example `process/group-checkout/g-1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    kind: EntityKind,
    class: Arc<str>,
    name: Arc<str>,
    id: EntityId,
}

impl Address {
    /// Checks the parts and builds an address.
    pub fn new(kind: EntityKind, class: &str, name: &str) -> Result<Self, AddressError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        if class.is_empty() || limits::CLASS_BYTES_MAX < class.len() || !class.chars().all(fits) {
            return Err(AddressError::Class { class: class.into() });
        }
        if name.is_empty() || limits::NAME_BYTES_MAX < name.len() {
            return Err(AddressError::NameLength { len: name.len() });
        }
        if name.contains('\0') {
            return Err(AddressError::NameNul);
        }
        Ok(Self { kind, class: class.into(), name: name.into(), id: hash(kind, class, name) })
    }

    /// The kind of the entity.
    pub fn kind(&self) -> EntityKind {
        self.kind
    }

    /// The class within the kind: a process, an object class, a workflow.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The name within the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id, which any sender can compute without a query.
    pub fn id(&self) -> EntityId {
        self.id
    }
}

fn hash(kind: EntityKind, class: &str, name: &str) -> EntityId {
    let mut hash = Sha256::new();
    for part in [kind.tag(), class, name] {
        // The length distinguishes ("a", "bc") from ("ab", "c").
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    EntityId(id)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.tag(), self.class, self.name)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let shape = || AddressError::Shape { text: text.into() };
        let mut parts = text.splitn(3, '/');
        let kind = parts.next().and_then(EntityKind::from_tag).ok_or_else(shape)?;
        let class = parts.next().ok_or_else(shape)?;
        let name = parts.next().ok_or_else(shape)?;
        Self::new(kind, class, name)
    }
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not `kind/class/name`.
    #[error("`{text}` is not an address; write kind/class/name, for example process/checkout/42")]
    Shape {
        /// The text that was given.
        text: Box<str>,
    },
    /// A class with other characters or too long.
    #[error("class `{class}` must be 1 to {max} ASCII letters, digits, `-`, `_` or `.`", max = limits::CLASS_BYTES_MAX)]
    Class {
        /// The text that was given.
        class: Box<str>,
    },
    /// An empty or over-long name.
    #[error("name has {len} bytes, it must have 1 to {max}", max = limits::NAME_BYTES_MAX)]
    NameLength {
        /// The number of bytes.
        len: usize,
    },
    /// PostgreSQL cannot store a NUL in a text.
    #[error("name contains a NUL character")]
    NameNul,
}

/// The id of an entity: the first 16 bytes of a hash of its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId(pub [u8; 16]);

impl EntityId {
    /// The id of no entity.
    pub(crate) const NONE: EntityId = EntityId([0; 16]);

    /// The shard of the entity: its first byte.
    pub fn shard(self) -> u8 {
        self.0[0]
    }

    /// Reads the stored bytes; `None` if they are not 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Reads the 32 hexadecimal digits that `Display` writes.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|it| Self(it.to_be_bytes()))
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_text() {
        let address = Address::new(EntityKind::Process, "checkout", "a/b ü").unwrap();
        assert_eq!(address.to_string(), "process/checkout/a/b ü");
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    }

    #[test]
    fn an_id_survives_its_text_and_depends_on_every_part() {
        let id = |text: &str| text.parse::<Address>().unwrap().id();
        assert_eq!(EntityId::from_hex(&id("stream/a/bc").to_string()), Some(id("stream/a/bc")));
        assert_ne!(id("stream/a/bc"), id("stream/ab/c"));
        assert_ne!(id("stream/a/b"), id("process/a/b"));
    }

    #[test]
    fn the_id_of_an_address_never_changes() {
        let address = Address::new(EntityKind::Object, "counter", "a").unwrap();
        assert_eq!(address.id().to_string(), "1d93ac71b74c9d594fd0e5689806dc95");
    }

    #[test]
    fn names_and_classes_end_at_their_limits() {
        let name = "x".repeat(limits::NAME_BYTES_MAX);
        assert!(Address::new(EntityKind::Stream, "a", &name).is_ok());
        let error = Address::new(EntityKind::Stream, "a", &(name + "x")).unwrap_err();
        assert_eq!(error, AddressError::NameLength { len: limits::NAME_BYTES_MAX + 1 });
        assert!(Address::new(EntityKind::Stream, "a/b", "x").is_err());
        let class = "x".repeat(limits::CLASS_BYTES_MAX);
        assert!(Address::new(EntityKind::Stream, &class, "a").is_ok());
        assert!(Address::new(EntityKind::Stream, &(class + "x"), "a").is_err());
        assert!("order-1".parse::<Address>().is_err());
    }

    #[test]
    fn the_tag_of_a_kind_never_changes() {
        let tags = ["stream", "process", "object", "run", "queue", "bucket", "system"];
        assert_eq!(EntityKind::ALL.map(EntityKind::tag), tags);
        assert_eq!(tags.map(EntityKind::from_tag), EntityKind::ALL.map(Some));
        assert_eq!(EntityKind::from_tag("Stream"), None);
    }
}
