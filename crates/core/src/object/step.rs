//! What a turn leads to.

use steadfast_store::Commit;

use super::{live::Op, mailbox::Reply};

/// What came of one input.
pub(super) struct Step {
    pub(super) reply: Reply,
    /// What must be durable before the reply leaves; `None` if nothing changed.
    pub(super) commit: Option<Commit>,
    /// What is to be written behind it, for which nobody waits.
    pub(super) after: Vec<Commit>,
    /// What happens to connections when it is durable.
    pub(super) ops: Vec<Op>,
    /// The input is not done yet: more alarms ring.
    pub(super) again: bool,
    /// The database in memory is of no use any more.
    pub(super) broken: bool,
}

impl Step {
    /// A reply, and nothing else.
    pub(super) fn reply(reply: Reply) -> Self {
        let (after, ops) = (Vec::new(), Vec::new());
        Self { reply, commit: None, after, ops, again: false, broken: false }
    }
}
