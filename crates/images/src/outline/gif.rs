//! The blocks of a GIF.

use super::{Frames, Outline, bytes::Bytes};
use crate::{format::ImageFormat, image_error::ImageError, limits::ImageLimits};

const FORMAT: ImageFormat = ImageFormat::Gif;

pub(super) fn outline(bytes: &[u8], limits: &ImageLimits) -> Result<Outline, ImageError> {
    let mut blocks = Bytes::new(FORMAT, bytes);
    blocks.take(6)?;
    let width = u32::from(blocks.u16_le()?);
    let height = u32::from(blocks.u16_le()?);
    let mut frames = Frames::new(FORMAT, width, height, limits)?;
    let flags = blocks.u8()?;
    blocks.take(2)?;
    skip_colors(&mut blocks, flags)?;
    loop {
        match blocks.u8()? {
            b'!' => {
                blocks.take(1)?;
                skip_parts(&mut blocks)?;
            }
            b',' => {
                blocks.take(4)?;
                let width = u32::from(blocks.u16_le()?);
                let height = u32::from(blocks.u16_le()?);
                frames.add(FORMAT, width, height)?;
                let flags = blocks.u8()?;
                skip_colors(&mut blocks, flags)?;
                blocks.take(1)?;
                skip_parts(&mut blocks)?;
            }
            b';' => break,
            other => {
                return Err(ImageError::broken(FORMAT, format!("no block begins with {other}")));
            }
        }
    }
    if frames.count == 0 {
        return Err(ImageError::broken(FORMAT, "it has no pixels"));
    }
    Ok(Outline { frames: frames.count, ..Outline::still(FORMAT, width, height) })
}

/// A table of colours, if the flags announce one.
fn skip_colors(blocks: &mut Bytes, flags: u8) -> Result<(), ImageError> {
    if flags & 0x80 != 0 {
        blocks.take(3 << ((flags & 7) + 1))?;
    }
    Ok(())
}

/// Parts with their lengths in front, up to one of no length.
fn skip_parts(blocks: &mut Bytes) -> Result<(), ImageError> {
    loop {
        match blocks.u8()? {
            0 => return Ok(()),
            len => blocks.take(usize::from(len))?,
        };
    }
}
