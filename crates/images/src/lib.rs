//! Images of strangers, decoded within limits.
//!
//! [`inspect`] looks at an image in three steps, each cheaper than the next: its first bytes say
//! which format it claims to be, its outline (chunks, markers, blocks) says how large it is and
//! whether it is whole, and only then a decoder reads it. It knows neither the store nor the
//! runtime: bytes go in, bytes or numbers come out.

#![forbid(unsafe_code)]

mod copies;
mod decode;
mod encode;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod image;
mod image_error;
mod limits;
mod outline;
mod pixels;
mod pool;
mod scale;
mod square;

pub use self::{
    copies::Copies,
    encode::encode_png,
    format::ImageFormat,
    image::{Inspected, Upright, decode_upright, inspect, thumbnail},
    image_error::ImageError,
    limits::ImageLimits,
    pool::{Pool, PoolError},
    square::middle_square,
};
