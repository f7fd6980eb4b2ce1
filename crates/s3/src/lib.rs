//! The S3 API over buckets. Only this crate knows S3.

mod access;
mod bucket;
mod checksum;
mod chunks;
mod convert;
mod cors;
mod errors;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod list;
mod multipart;
mod object;
mod operations;
mod presign;
mod receive;
mod service;
mod unsupported;

pub use self::{
    access::Host,
    operations::{OPERATIONS, Permission, ServedOperation},
    presign::{
        PRESIGN_MAX, PresignError, PresignMethod, URL_KEY_PREFIX, presign, presign_path, url_key,
    },
    service::{Refusal, S3Api, S3Use, S3WrongCredential},
};
