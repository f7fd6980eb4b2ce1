//! What goes over the wire. Fields are camelCase, times RFC 3339, ids in full.

pub(crate) use steadfast_api::{
    DeliveryState as MessageState, Page as List,
    objects::{
        AlarmEntry, ConnectionEntry, FailureEntry, ObjectClass, ObjectDetail, ObjectEntry,
        RowEntry, SqlRows, TableEntry, TurnDetail, TurnEntry,
    },
    processes::{Instance, InstanceDetail, Status},
    queues::{Queue as QueueEntry, QueueMessage, QueueSample as SampleEntry},
    streams::{Message, Stream, StreamDetail},
};
