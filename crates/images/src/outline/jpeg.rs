//! The markers of a JPEG.

use super::{Outline, bytes::Bytes, check_size};
use crate::{format::ImageFormat, image_error::ImageError, limits::ImageLimits};

const FORMAT: ImageFormat = ImageFormat::Jpeg;

const START_OF_SCAN: u8 = 0xda;
const END: u8 = 0xd9;

pub(super) fn outline(bytes: &[u8], limits: &ImageLimits) -> Result<Outline, ImageError> {
    let mut markers = Bytes::new(FORMAT, bytes);
    let mut frame: Option<Outline> = None;
    let mut scans = 0;
    // Bytes between two markers are the packed pixels of a scan; they are skipped.
    loop {
        let marker = next_marker(&mut markers)?;
        match marker {
            END => break,
            // Those that stand alone; a zero marks a byte of pixels that only looks like a marker.
            0x00 | 0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let len = usize::from(markers.u16_be()?);
        let Some(len) = len.checked_sub(2) else {
            return Err(ImageError::broken(FORMAT, "a segment is shorter than its own length"));
        };
        let body = markers.take(len)?;
        match marker {
            START_OF_SCAN => {
                scans += 1;
                if limits.scans_max < scans {
                    return Err(ImageError::Scans { max: limits.scans_max });
                }
            }
            0xc4 | 0xc8 | 0xcc => {} // tables, in the middle of the numbers of frames
            0xc0..=0xcf if frame.is_some() => {
                return Err(ImageError::broken(FORMAT, "it has two headers"));
            }
            0xc0..=0xcf => frame = Some(header(marker, body, limits)?),
            _ => {}
        }
    }
    match frame {
        Some(frame) if 0 < scans => Ok(frame),
        _ => Err(ImageError::broken(FORMAT, "it has no pixels")),
    }
}

fn next_marker(markers: &mut Bytes) -> Result<u8, ImageError> {
    while markers.u8()? != 0xff {}
    loop {
        match markers.u8()? {
            0xff => {} // any number of them may come before a marker
            marker => return Ok(marker),
        }
    }
}

fn header(marker: u8, body: &[u8], limits: &ImageLimits) -> Result<Outline, ImageError> {
    let mut body = Bytes::new(FORMAT, body);
    let _precision = body.u8()?;
    let height = u32::from(body.u16_be()?);
    let width = u32::from(body.u16_be()?);
    let components = u64::from(body.u8()?);
    check_size(FORMAT, width, height, limits)?;
    // A progressive image is kept as coefficients of two bytes until its last scan is read.
    let is_progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
    let extra_bytes_per_pixel = if is_progressive { 2 * components } else { 0 };
    Ok(Outline { extra_bytes_per_pixel, ..Outline::still(FORMAT, width, height) })
}
