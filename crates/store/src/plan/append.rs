//! Appends: versions, positions, and the work of messages.

use super::{EntityRow, MessageRow, Work, decide::Batch};
use crate::{
    Address, EntityId, EntityKind, Message, Position, Timestamp, Version,
    message::{Cause, Due},
};

impl Batch {
    pub(super) fn append(&mut self, stream: &Address, messages: &[Message]) {
        if messages.is_empty() {
            return;
        }
        self.introduce(stream);
        let id = stream.id();
        let before = self.version(id);
        self.moved.entry(id).or_insert(before);
        self.facts.versions.insert(id, before + messages.len() as Version);
        // The previous last message does not hold the version any more.
        if let Some(last) = self.facts.lasts.get(&id).copied()
            && !stream.kind().has_state()
        {
            self.is_free(last);
        }
        let first = self.draft.position + 1;
        self.facts.lasts.set(id, Some(self.draft.position + messages.len() as Position));
        let origin = self.origin(id, first);
        for (index, message) in messages.iter().enumerate() {
            let position = first + index as Position;
            let version = before + 1 + index as Version;
            let cause = message.cause.map(|cause| match cause {
                Cause::Position(position) => position,
                Cause::Sibling(sibling) => first + sibling as Position,
            });
            self.enqueue(position, message);
            self.draft.messages.push(message_row(
                position,
                id,
                origin,
                version,
                cause,
                self.draft.at,
                message,
            ));
            self.receipt.appended.push((version, position));
        }
        self.draft.position += messages.len() as Position;
    }

    /// The origin of a stream; `first` if the stream is empty.
    fn origin(&mut self, stream: EntityId, first: Position) -> Position {
        if let Some(origin) = self.facts.origins.get(&stream) {
            return *origin;
        }
        self.facts.origins.set(stream, Some(first));
        first
    }

    fn enqueue(&mut self, position: Position, message: &Message) {
        let Some(task) = &message.task else { return };
        self.introduce_target(&task.target);
        let at = self.draft.at;
        let (due_at, claim) = match task.due {
            Due::After(duration) => (at.after(duration), None),
            Due::At(at) => (at, None),
            Due::Held(lease, lasts) => (at.after(lasts), Some((lease, at))),
        };
        let (target, ordered, attempts) = (task.target.id(), task.ordered, claim.iter().len());
        let (attempts, forgiven) = (attempts as u32, 0);
        let queued = task.target.kind() == EntityKind::Queue && !ordered;
        let work = Work { position, target, ordered, due_at, attempts, forgiven, claim, queued };
        self.set_work(position, Some(work));
    }

    /// An entity that is only addressed. It may never begin: the sweep processes it later.
    pub(super) fn introduce_target(&mut self, address: &Address) {
        if !self.facts.entities.contains(&address.id()) {
            if address.kind().can_end() {
                self.ends(address.id());
            }
            self.introduce(address);
        }
    }

    pub(super) fn introduce(&mut self, address: &Address) {
        if self.facts.entities.insert(address.id()) {
            let (address, created_at) = (address.clone(), self.draft.at);
            let (closed_at, origin) = (None, None);
            self.draft.entities.push(EntityRow { address, created_at, closed_at, origin });
        }
    }
}

fn message_row(
    position: Position,
    stream: EntityId,
    origin: Position,
    version: Version,
    cause: Option<Position>,
    created_at: Timestamp,
    message: &Message,
) -> MessageRow {
    MessageRow {
        position,
        stream,
        origin,
        version,
        kind: message.kind,
        direction: message.direction,
        action: message.action.into(),
        message_type: message.message_type.clone(),
        schema: message.schema,
        data: message.data.clone(),
        metadata: message.metadata.clone(),
        target: message.task.as_ref().map(|task| task.target.id()),
        ordered: message.task.as_ref().is_some_and(|task| task.ordered),
        cause,
        created_at,
    }
}
