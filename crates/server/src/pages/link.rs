//! The page of an entity.

use steadfast_store::{Address, EntityKind};

use super::{buckets, objects, queues, workflows};
use steadfast_web::escaped;

/// The page that shows an entity best.
pub(super) fn href_of(address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() {
        EntityKind::Object => objects::path_of(class, name),
        EntityKind::Run => workflows::path_of(class, name),
        EntityKind::Process => format!("/processes/{}/{}", escaped(class), escaped(name)),
        EntityKind::Queue => queues::path_of(class),
        EntityKind::Bucket => buckets::path_of(class),
        EntityKind::Stream | EntityKind::System => format!("/streams/{}", address.id()),
    }
}
