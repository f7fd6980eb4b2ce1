//! The S3 API over buckets. Only this crate knows S3.

mod access;
mod attributes;
mod auth;
mod bucket;
mod checksum;
mod chunks;
mod condition;
mod convert;
mod copy;
mod cors;
mod delete;
mod errors;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod list;
mod multipart;
mod notify;
mod object;
mod operations;
mod outgoing;
mod parts;
mod permission;
mod presign;
mod receive;
mod service;
mod signature;
mod unset;
mod unsupported;
mod versions;

pub use self::{
    auth::Host,
    operations::OPERATIONS,
    permission::{Operation, Permission},
    presign::{
        PRESIGN_MAX, PresignError, PresignMethod, URL_KEY_PREFIX, presign, presign_path, url_key,
    },
    service::{Refusal, S3Api, S3Use, S3WrongCredential},
};
