//! The paths of pages of entities.

use steadfast_store::{Address, EntityKind};
use steadfast_web::escaped;

use crate::server::Server;

/// The page of an object.
pub(crate) fn object_path(class: &str, name: &str) -> String {
    format!("/objects/{}/{}", escaped(class), escaped(name))
}

/// The page of a run.
pub(crate) fn run_path(workflow: &str, id: &str) -> String {
    format!("/workflows/{}/{}", escaped(workflow), escaped(id))
}

/// The page of a queue.
pub(crate) fn queue_path(queue: &str) -> String {
    format!("/queues/{}", escaped(queue))
}

/// The page of a bucket.
pub(crate) fn bucket_path(bucket: &str) -> String {
    format!("/buckets/{}", escaped(bucket))
}

/// The page of an instance of a process.
pub(crate) fn instance_path(process: &str, id: &str) -> String {
    format!("/processes/{}/{}", escaped(process), escaped(id))
}

/// The best page of an entity. Instances of a process have pages only if the program declares it.
pub(crate) fn href_of(server: &Server, address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() == EntityKind::Process && server.runtime.processes().contains(class) {
        true => instance_path(class, name),
        false => page_of(address),
    }
}

/// The page of an entity, regardless of the declarations of the program.
pub(crate) fn page_of(address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() {
        EntityKind::Object => object_path(class, name),
        EntityKind::Run => run_path(class, name),
        EntityKind::Queue => queue_path(class),
        EntityKind::Bucket => bucket_path(class),
        EntityKind::Process | EntityKind::Stream | EntityKind::System => {
            format!("/streams/{}", address.id())
        }
    }
}
