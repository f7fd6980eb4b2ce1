//! The S3 API over buckets. Everything that is particular to S3 is here; the buckets know nothing
//! of it.

mod presign;

pub use self::presign::{PRESIGN_MAX, PresignError, PresignMethod, presign};
