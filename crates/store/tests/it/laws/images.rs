//! Objects: images are read by page number.

use std::ops::RangeInclusive;

use steadfast_store::{Address, Commit, Complete, EntityKind, Images, PageImage, Turn, Write};

use crate::lab::{Lab, address_of};

crate::laws::laws!(images_are_read_by_ranges_of_pages_in_order);

/// An object with images of this many pages.
async fn object(lab: &Lab, name: &str, pages: u32) -> Address {
    let object = address_of(EntityKind::Object, "thing", name);
    let turn = Turn {
        object: object.clone(),
        cause: None,
        sent: 0,
        chk: 7,
        input: "made".into(),
        delta: [1, 2, 3].into(),
    };
    let image = |page: u32| PageImage { page, seq: 0, crc: page, data: [page as u8].into() };
    let complete = Some(Complete { pages, tail_bytes: 3 });
    let images = (1..=pages).map(image).collect();
    let images = Images { entity: object.id(), part: 0, images, complete };
    lab.committed(Commit::of(Write::Turn(turn)).write(Write::Images(images))).await;
    object
}

async fn images_are_read_by_ranges_of_pages_in_order(lab: Lab) {
    let object = object(&lab, "a", 40).await;
    self::object(&lab, "b", 5).await;
    let read = async |pages: &[RangeInclusive<u32>]| {
        let images = lab.store.images(object.id(), pages).await.unwrap();
        let sound =
            |it: &PageImage| it.seq == 1 && it.crc == it.page && *it.data == [it.page as u8];
        assert!(images.iter().all(sound), "{images:?}");
        images.iter().map(|it| it.page).collect::<Vec<u32>>()
    };
    assert_eq!(read(&[1..=3]).await, [1, 2, 3]);
    assert_eq!(read(&[2..=2, 7..=9, 40..=40]).await, [2, 7, 8, 9, 40]);
    assert_eq!(read(&[39..=u32::MAX]).await, [39, 40]);
    assert_eq!(read(&[0..=u32::MAX]).await, (1..=40).collect::<Vec<u32>>());
    assert!(read(&[]).await.is_empty());
    assert!(read(&[41..=50]).await.is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "an empty one is no error")]
    let empty = 5..=4;
    assert_eq!(read(&[1..=1, empty, 6..=6]).await, [1, 6]);
    let nobody = address_of(EntityKind::Object, "thing", "nobody");
    assert_eq!(lab.store.images(nobody.id(), &[1..=9]).await.unwrap(), []);
}
