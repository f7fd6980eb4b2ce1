//! The connections of a class whose types are forgotten.

use std::{rc::Rc, sync::Arc};

use super::{Closed, Connection};
use crate::{
    Result,
    object::{Object, Turn, turn::Core},
};

type Connected = Box<dyn Fn(&Rc<Core>, &Connection) -> Result<()> + Send + Sync>;
type Received = Box<dyn Fn(&Rc<Core>, &Connection, &str) -> Result<()> + Send + Sync>;
type WasClosed = Box<dyn Fn(&Rc<Core>, &Connection, &Closed) -> Result<()> + Send + Sync>;

/// Where connections come in.
pub(in crate::object) struct Door {
    pub(super) connected: Connected,
    pub(super) received: Received,
    pub(super) closed: WasClosed,
    pub(super) auto_reply: &'static [(&'static str, &'static str)],
}

impl Door {
    pub(in crate::object) fn of<C: Object>(class: &Arc<C>) -> Self {
        let turn = |core: &Rc<Core>| Turn::new(core.clone());
        let (comes, says, goes) = (class.clone(), class.clone(), class.clone());
        Self {
            connected: Box::new(move |core, it| comes.connected(&turn(core), it)),
            received: Box::new(move |core, it, text| says.received(&turn(core), it, text)),
            closed: Box::new(move |core, it, closed| goes.closed(&turn(core), it, closed)),
            auto_reply: C::AUTO_REPLY,
        }
    }
}
