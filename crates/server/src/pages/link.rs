//! The page of an entity.

use steadfast_store::{Address, EntityKind};
use steadfast_web::escaped;

use super::{buckets, objects, queues, workflows};
use crate::server::Server;

/// The page that shows an entity best. The instances of a process have pages only where it is
/// declared.
pub(super) fn href_of(server: &Server, address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() {
        EntityKind::Object => objects::path_of(class, name),
        EntityKind::Run => workflows::path_of(class, name),
        EntityKind::Process if server.runtime.processes().contains(class) => {
            format!("/processes/{}/{}", escaped(class), escaped(name))
        }
        EntityKind::Queue => queues::path_of(class),
        EntityKind::Bucket => buckets::path_of(class),
        EntityKind::Process | EntityKind::Stream | EntityKind::System => {
            format!("/streams/{}", address.id())
        }
    }
}
