//! The boxes of an MPEG-4 file. The one that describes the tracks, `moov`, may come first or last.

/// A header that is longer says nothing here.
pub(super) const HEADER_BYTES: usize = 256 << 10;

/// Walks over the boxes of a file that passes by, and keeps `moov`.
#[derive(Debug, Default)]
pub(super) struct Boxes {
    /// The part of the next box's header that has come.
    header: Vec<u8>,
    /// Bytes of the current box that are still to come.
    left: u64,
    is_moov: bool,
    moov: Vec<u8>,
}

impl Boxes {
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if 0 < self.left {
                let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                let (inside, rest) = bytes.split_at(len);
                if self.is_moov {
                    let room = HEADER_BYTES - self.moov.len();
                    self.moov.extend_from_slice(&inside[..len.min(room)]);
                }
                self.left -= len as u64;
                bytes = rest;
                continue;
            }
            let (byte, rest) = bytes.split_at(1);
            self.header.extend_from_slice(byte);
            bytes = rest;
            if let Some(len) = self.length() {
                self.is_moov = self.header.get(4..8) == Some(b"moov");
                self.left = len;
                self.header.clear();
            }
        }
    }

    /// How many bytes the box has behind its header, as soon as the header is whole.
    fn length(&self) -> Option<u64> {
        let short = u64::from(be32(&self.header, 0)?);
        let has_name = 8 <= self.header.len();
        match short {
            // It goes to the end of the file.
            0 => has_name.then_some(u64::MAX),
            1 => {
                let long: [u8; 8] = self.header.get(8..16)?.try_into().ok()?;
                Some(u64::from_be_bytes(long).saturating_sub(16))
            }
            _ => has_name.then_some(short.saturating_sub(8)),
        }
    }

    /// The part of `moov` that has come.
    pub(super) fn moov(&self) -> &[u8] {
        &self.moov
    }
}

/// The header of the first track that is seen: the last numbers of its box, in 65,536ths.
pub(super) fn mp4(moov: &[u8]) -> Option<(u32, u32)> {
    let headers = moov.windows(4).enumerate().filter(|(_, it)| *it == b"tkhd");
    headers.filter_map(|(at, _)| track(moov, at)).find(|it| 0 < it.0 && 0 < it.1)
}

fn track(bytes: &[u8], name: usize) -> Option<(u32, u32)> {
    let from = name.checked_sub(4)?;
    let end = from.checked_add(usize::try_from(be32(bytes, from)?).ok()?)?;
    let (width, height) = (end.checked_sub(8)?, end.checked_sub(4)?);
    Some((be32(bytes, width)? >> 16, be32(bytes, height)? >> 16))
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{MediaKind, size::tests::size};

    const FTYP: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0isommp42";

    /// A track of sound, which has no size, and one of pictures.
    fn moov() -> Vec<u8> {
        let mut tracks = Vec::new();
        for (width, height) in [(0_u32, 0_u32), (640 << 16, 360 << 16)] {
            tracks.extend_from_slice(b"\0\0\0\x5ctkhd");
            tracks.extend_from_slice(&[0; 76]);
            tracks.extend_from_slice(&width.to_be_bytes());
            tracks.extend_from_slice(&height.to_be_bytes());
        }
        let len = u32::try_from(tracks.len() + 8).unwrap();
        [&len.to_be_bytes()[..], b"moov", &tracks].concat()
    }

    /// Pictures, among them what looks like the header of a track.
    fn mdat(len: usize) -> Vec<u8> {
        let mut inside = b"\0\0\0\x10tkhd\0\x09\0\0\0\x09\0\0".to_vec();
        inside.resize(len, 7);
        let len = u32::try_from(inside.len() + 8).unwrap();
        [&len.to_be_bytes()[..], b"mdat", &inside].concat()
    }

    #[test]
    fn the_size_of_a_clip_is_found_before_and_behind_its_pictures() {
        let (moov, mdat) = (moov(), mdat(300 << 10));
        for file in [[FTYP, &moov, &mdat].concat(), [FTYP, &mdat, &moov].concat()] {
            for chunk in [1, 13, 64 << 10, file.len()] {
                assert_eq!(size(MediaKind::Mp4, &file, chunk), Some((640, 360)), "{chunk}");
            }
        }
    }

    #[test]
    fn the_size_is_found_behind_a_box_whose_length_has_eight_bytes() {
        let long = [&1_u32.to_be_bytes()[..], b"mdat", &20_u64.to_be_bytes(), b"four"].concat();
        let file = [FTYP, &long, &moov()].concat();
        assert_eq!(size(MediaKind::Mp4, &file, 5), Some((640, 360)));
    }

    #[test]
    fn a_clip_that_does_not_say_its_size_has_none() {
        let moov = moov();
        let endless = b"\0\0\0\0mdat";
        let short = [FTYP, &moov[..60]].concat();
        for file in [
            [FTYP, &mdat(100)].concat(),
            [FTYP, endless, &moov].concat(),
            [FTYP, b"\0\0\0\x01mdat"].concat(),
            short,
        ] {
            assert_eq!(size(MediaKind::Mp4, &file, 11), None);
        }
    }
}
