//! How much an image may ask for before it is refused.

/// Limits of an image. All are checked before a decoder allocates anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Bytes of the file; one is the least.
    pub bytes_max: usize,
    /// Pixels from left to right.
    pub width_max: u32,
    /// Pixels from top to bottom.
    pub height_max: u32,
    /// Pixels of one frame.
    pub pixels_max: u64,
    /// Frames of an animation.
    pub frames_max: u32,
    /// Pixels of all frames of an animation together: what it costs to decode it.
    pub animation_pixels_max: u64,
    /// Passes over the pixels of a progressive JPEG. Each costs as much as a whole decoding, in a
    /// few bytes of the file; encoders write about ten.
    pub scans_max: u32,
    /// Bytes that decoding may hold at the same time.
    pub allocation_max: u64,
}

impl Default for ImageLimits {
    /// A photo of 50 megapixels fits, if its file does.
    fn default() -> Self {
        Self {
            bytes_max: 5_000_000,
            width_max: 8_192,
            height_max: 8_192,
            pixels_max: 8_192 * 6_144,
            frames_max: 500,
            animation_pixels_max: 250_000_000,
            scans_max: 100,
            allocation_max: 256 << 20,
        }
    }
}
