//! The elements of a WebM file: each has an id, a length, and then its content.

/// Elements that are looked into: the segment, its tracks, a track, and its pictures.
const INTO: [u32; 4] = [0x1853_8067, 0x1654_ae6b, 0xae, 0xe0];
const PIXEL_WIDTH: u32 = 0xb0;
const PIXEL_HEIGHT: u32 = 0xba;
/// Where pictures begin: tracks come before.
const CLUSTER: u32 = 0x1f43_b675;

/// Width and height of the first track with pictures.
pub(super) fn webm(bytes: &[u8]) -> Option<(u32, u32)> {
    let (mut at, mut width, mut height) = (0, None, None);
    loop {
        let (id, behind_id) = id(bytes, at)?;
        let (length, inside) = length(bytes, behind_id)?;
        if id == CLUSTER {
            return None;
        }
        if INTO.contains(&id) {
            at = inside;
            continue;
        }
        // Of an unknown length are only elements that are looked into.
        at = inside.checked_add(usize::try_from(length?).ok()?)?;
        match id {
            PIXEL_WIDTH => width = Some(number(bytes.get(inside..at)?)?),
            PIXEL_HEIGHT => height = Some(number(bytes.get(inside..at)?)?),
            _ => {}
        }
        if let (Some(width), Some(height)) = (width, height) {
            return Some((width, height));
        }
    }
}

/// An id, with the bits that say how long it is, and where it ends.
fn id(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let len = bytes.get(at)?.leading_zeros() as usize + 1;
    let end = at.checked_add(len).filter(|_| len <= 4)?;
    Some((number(bytes.get(at..end)?)?, end))
}

/// A length without these bits, and where it ends. All bits set stand for an unknown length.
fn length(bytes: &[u8], at: usize) -> Option<(Option<u64>, usize)> {
    let first = *bytes.get(at)?;
    let len = first.leading_zeros() as usize + 1;
    let end = at.checked_add(len).filter(|_| len <= 8)?;
    let all = bytes.get(at..end)?.iter().fold(0_u64, |all, it| all << 8 | u64::from(*it));
    let mask = (1_u64 << (7 * len)) - 1;
    Some(((all & mask != mask).then_some(all & mask), end))
}

fn number(bytes: &[u8]) -> Option<u32> {
    let number =
        bytes.iter().try_fold(0_u64, |all, it| Some(all.checked_mul(256)? | u64::from(*it)));
    number.and_then(|it| u32::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::super::{MediaKind, size::tests::size};

    const HEAD: &[u8] = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm";
    /// Of an unknown length, as what is recorded live.
    const SEGMENT: &[u8] = b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff";
    const INFO: &[u8] = b"\x15\x49\xa9\x66\x40\x05abcde";
    const CLUSTER: &[u8] = b"\x1f\x43\xb6\x75\xff";

    fn element(id: &[u8], inside: &[u8]) -> Vec<u8> {
        let length = 0x80 | u8::try_from(inside.len()).unwrap();
        [id, &[length], inside].concat()
    }

    fn tracks() -> Vec<u8> {
        let sound = element(b"\xae", b"\xd7\x81\x01");
        let pixels = [element(b"\xb0", &[0x02, 0x80]), element(b"\xba", &[0x01, 0x68])].concat();
        let pictures =
            element(b"\xae", &[b"\xd7\x81\x02", &element(b"\xe0", &pixels)[..]].concat());
        element(b"\x16\x54\xae\x6b", &[sound, pictures].concat())
    }

    #[test]
    fn the_size_of_a_clip_is_that_of_its_first_track_with_pictures() {
        for file in [
            [HEAD, SEGMENT, INFO, &tracks(), CLUSTER].concat(),
            [HEAD, &element(b"\x18\x53\x80\x67", &[INFO, &tracks()].concat())].concat(),
        ] {
            assert_eq!(size(MediaKind::Webm, &file, 7), Some((640, 360)));
        }
    }

    #[test]
    fn a_clip_that_does_not_say_its_size_has_none() {
        let whole = [HEAD, SEGMENT, INFO, &tracks()].concat();
        for file in [
            [HEAD, SEGMENT, INFO, CLUSTER, &tracks()].concat(),
            [HEAD, SEGMENT, b"\x15\x49\xa9\x66\xff", &tracks()].concat(),
            whole[..whole.len() - 1].to_vec(),
            [HEAD, &[0; 9], &tracks()].concat(),
        ] {
            assert_eq!(size(MediaKind::Webm, &file, 7), None);
        }
    }
}
