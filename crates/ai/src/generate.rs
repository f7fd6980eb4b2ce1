//! Making images and clips: one trait, and providers behind it.
//!
//! A provider takes a task under an id that the caller chose and stored before, so that after a
//! crash it can be asked what became of it: [`Provider::poll`] comes before any second
//! [`Provider::submit`]. What it makes is opened as a stream within limits, wherever it lies.

mod embedded;
mod error;
mod fetch;
mod input;
mod media;
mod media_boxes;
mod media_size;
mod media_webm;
mod provider;
mod providers;
mod runware;
mod stream;
mod token;

pub use self::{
    embedded::{Drawing, Embedded},
    error::{ErrorKind, GenerateError},
    fetch::FetchOptions,
    media::{MediaKind, SNIFF_BYTES, sniff_media},
    media_size::MediaSize,
    provider::{
        Checked, Delivery, Model, Output, OutputKind, OutputSource, Provider, Report, Request,
        Submitted, Task, TaskState,
    },
    providers::Providers,
    runware::{Reconcile, Runware, RunwareOptions},
    stream::OutputStream,
    token::{verify_webhook_token, webhook_token},
};
