//! Pixels in memory, and turning them upright.

/// Rows of pixels with 8 bits for each channel: red, green, blue and perhaps alpha.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) has_alpha: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Pixels {
    /// Three bytes for each pixel; alpha is left out.
    pub(crate) fn into_rgb(self) -> Vec<u8> {
        match self.has_alpha {
            true => {
                let pixels = self.bytes.as_chunks::<4>().0;
                pixels.iter().flat_map(|[red, green, blue, _]| [*red, *green, *blue]).collect()
            }
            false => self.bytes,
        }
    }

    /// Four bytes for each pixel.
    pub(crate) fn into_rgba(self) -> Vec<u8> {
        match self.has_alpha {
            true => self.bytes,
            false => {
                let mut bytes = Vec::with_capacity(self.bytes.len() / 3 * 4);
                for [red, green, blue] in self.bytes.as_chunks().0 {
                    bytes.extend([*red, *green, *blue, u8::MAX]);
                }
                bytes
            }
        }
    }

    /// The same pixels, turned and mirrored as an orientation says.
    pub(crate) fn upright(self, orientation: Orientation) -> Self {
        if !orientation.is_turned() {
            return self;
        }
        let bytes = match self.has_alpha {
            true => self.turned::<4>(orientation),
            false => self.turned::<3>(orientation),
        };
        let (width, height) = orientation.size(self.width, self.height);
        Self { width, height, has_alpha: self.has_alpha, bytes }
    }

    fn turned<const N: usize>(&self, orientation: Orientation) -> Vec<u8> {
        let (width, height) = (self.width as usize, self.height as usize);
        let (to_width, to_height) = orientation.size(self.width, self.height);
        let pixels = self.bytes.as_chunks::<N>().0;
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for y in 0..to_height as usize {
            for x in 0..to_width as usize {
                let (mut left, mut top) = if orientation.swaps_edges() { (y, x) } else { (x, y) };
                if matches!(orientation.0, 2 | 3 | 7 | 8) {
                    left = width - 1 - left;
                }
                if matches!(orientation.0, 3 | 4 | 6 | 7) {
                    top = height - 1 - top;
                }
                bytes.extend_from_slice(&pixels[top * width + left]);
            }
        }
        bytes
    }
}

/// How a camera was held, as Exif counts: 1 is upright, 8 is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orientation(u8);

impl Orientation {
    pub(crate) const UPRIGHT: Self = Self(1);

    /// To be turned clockwise.
    #[cfg(test)]
    pub(crate) const CLOCKWISE: Self = Self(6);

    /// The orientation in an Exif block. A block that has none, or cannot be read, says upright.
    pub(crate) fn of_exif(exif: &[u8]) -> Self {
        find_orientation(exif).map_or(Self::UPRIGHT, Self)
    }

    /// Whether the pixels have to be turned or mirrored.
    pub(crate) fn is_turned(self) -> bool {
        self != Self::UPRIGHT
    }

    /// Width and height when upright.
    pub(crate) fn size(self, width: u32, height: u32) -> (u32, u32) {
        if self.swaps_edges() { (height, width) } else { (width, height) }
    }

    fn swaps_edges(self) -> bool {
        5 <= self.0
    }
}

/// Exif is a TIFF: the order of bytes, then the position of a list of entries of twelve bytes each.
fn find_orientation(exif: &[u8]) -> Option<u8> {
    let is_little_endian = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let number = |bytes: &[u8]| {
        let add = |sum: u32, byte: &u8| (sum << 8) | u32::from(*byte);
        match is_little_endian {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        }
    };
    let entries = exif.get(usize::try_from(number(exif.get(4..8)?)).ok()?..)?;
    let (count, entries) = entries.split_at_checked(2)?;
    let entries = entries.chunks_exact(12).take(usize::try_from(number(count)).ok()?);
    // The tag, its type (a number of 16 bits), and how many of them there are.
    let is_orientation =
        |it: &&[u8]| (number(&it[..2]), number(&it[2..4]), number(&it[4..8])) == (0x112, 3, 1);
    let value = number(&entries.into_iter().find(is_orientation)?[8..10]);
    u8::try_from(value).ok().filter(|it| (1..=8).contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Exif block with an entry before the orientation.
    fn exif(is_little_endian: bool, kind: u16, orientation: u16) -> Vec<u8> {
        let short = |it: u16| if is_little_endian { it.to_le_bytes() } else { it.to_be_bytes() };
        let long = |it: u32| if is_little_endian { it.to_le_bytes() } else { it.to_be_bytes() };
        let entry = |tag: u16, kind: u16, value: u16| {
            [&short(tag)[..], &short(kind), &long(1), &short(value), &[0; 2]].concat()
        };
        let order = if is_little_endian { b"II" } else { b"MM" };
        let entries = [entry(0x10f, 3, 5), entry(0x112, kind, orientation)].concat();
        [&order[..], &short(42), &long(8), &short(2), &entries].concat()
    }

    #[test]
    fn the_orientation_of_an_exif_block_is_that_of_the_image_crate() {
        for is_little_endian in [true, false] {
            for kind in [3, 4] {
                for orientation in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 256, 262] {
                    let mut exif = exif(is_little_endian, kind, orientation);
                    for len in 0..=exif.len() {
                        let known = image::metadata::Orientation::from_exif_chunk(&exif[..len]);
                        let known = known.map_or(1, image::metadata::Orientation::to_exif);
                        assert_eq!(Orientation::of_exif(&exif[..len]), Orientation(known));
                    }
                    exif[4..8].fill(0xff);
                    assert_eq!(Orientation::of_exif(&exif), Orientation::UPRIGHT);
                }
            }
        }
    }
}
