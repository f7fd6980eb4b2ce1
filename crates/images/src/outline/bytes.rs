//! Reading bytes that may end anywhere.

use crate::{format::ImageFormat, image_error::ImageError};

/// A place in the bytes of an image. To read behind the end is to find it cut off.
pub(super) struct Bytes<'a> {
    format: ImageFormat,
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(format: ImageFormat, bytes: &'a [u8]) -> Self {
        Self { format, rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ImageError> {
        let cut = ImageError::Truncated { format: self.format };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(cut)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ImageError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16_le(&mut self) -> Result<u16, ImageError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u16_be(&mut self) -> Result<u16, ImageError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u24_le(&mut self) -> Result<u32, ImageError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    pub(super) fn u32_le(&mut self) -> Result<u32, ImageError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u32_be(&mut self) -> Result<u32, ImageError> {
        Ok(u32::from_be_bytes(self.array()?))
    }
}
