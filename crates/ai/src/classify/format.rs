//! Which format an image claims to have.

use serde::{Deserialize, Serialize};

use super::image_error::ImageError;

/// The formats that are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Portable Network Graphics.
    Png,
    /// JPEG, baseline or progressive.
    Jpeg,
    /// WebP, lossy or lossless.
    Webp,
    /// GIF, 87a or 89a.
    Gif,
}

impl ImageFormat {
    /// What the first bytes say. A name or a content type that somebody sent is never asked.
    pub fn sniff(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Ok(ImageFormat::Png)
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Ok(ImageFormat::Jpeg)
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            Ok(ImageFormat::Gif)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Ok(ImageFormat::Webp)
        } else {
            Err(ImageError::Format)
        }
    }

    /// Its name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ImageFormat::Png => "png",
            ImageFormat::Jpeg => "jpeg",
            ImageFormat::Webp => "webp",
            ImageFormat::Gif => "gif",
        }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            ImageFormat::Png => "image/png",
            ImageFormat::Jpeg => "image/jpeg",
            ImageFormat::Webp => "image/webp",
            ImageFormat::Gif => "image/gif",
        }
    }
}

impl std::fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ImageFormat::Png => "PNG",
            ImageFormat::Jpeg => "JPEG",
            ImageFormat::Webp => "WebP",
            ImageFormat::Gif => "GIF",
        })
    }
}
