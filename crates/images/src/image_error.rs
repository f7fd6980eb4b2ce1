//! Errors of images, each with a stable code.

use super::format::ImageFormat;

/// Why an image is refused. The same bytes are always refused for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// No bytes at all.
    #[error("image is empty")]
    Empty,
    /// More bytes than allowed.
    #[error("image has {bytes} bytes, limit is {max}")]
    TooLarge {
        /// The actual value.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// None of the formats that are taken, whatever its name says.
    #[error("this is not a PNG, JPEG, WebP or GIF; convert it to one of them")]
    Format,
    /// It ends too early.
    #[error("{format} is cut off; send the whole file")]
    Truncated {
        /// The format that it claims.
        format: ImageFormat,
    },
    /// Wider or higher than allowed.
    #[error("image is {width} x {height} pixels, limit is {width_max} x {height_max}")]
    Dimensions {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
        /// The limit.
        width_max: u32,
        /// The limit.
        height_max: u32,
    },
    /// More pixels than allowed, in one frame or in all of them.
    #[error("image has {pixels} pixels in all its frames, limit is {max}")]
    Pixels {
        /// How many there are.
        pixels: u64,
        /// The limit.
        max: u64,
    },
    /// More frames than allowed.
    #[error("animation has more than {max} frames; shorten it")]
    Frames {
        /// The limit.
        max: u32,
    },
    /// More passes than any encoder writes.
    #[error("JPEG has more than {max} scans; save it again with another program")]
    Scans {
        /// The limit.
        max: u32,
    },
    /// Decoding would need more memory than allowed.
    #[error("decoding needs {bytes} bytes of memory, limit is {max}; make the image smaller")]
    Memory {
        /// The needed memory.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// It claims to be of a format, and its decoder disagrees.
    #[error("{format} cannot be decoded: {reason}")]
    Broken {
        /// The format that it claims.
        format: ImageFormat,
        /// The error of the decoder.
        reason: String,
    },
}

impl ImageError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ImageError::Empty => "image_empty",
            ImageError::TooLarge { .. } => "image_too_large",
            ImageError::Format => "image_format_unsupported",
            ImageError::Truncated { .. } => "image_truncated",
            ImageError::Dimensions { .. } => "image_dimensions_exceeded",
            ImageError::Pixels { .. } => "image_pixels_exceeded",
            ImageError::Frames { .. } => "image_frames_exceeded",
            ImageError::Scans { .. } => "image_scans_exceeded",
            ImageError::Memory { .. } => "image_memory_exceeded",
            ImageError::Broken { .. } => "image_undecodable",
        }
    }

    /// It is broken, and this is how.
    pub(crate) fn broken(format: ImageFormat, reason: impl Into<String>) -> Self {
        ImageError::Broken { format, reason: reason.into() }
    }
}
