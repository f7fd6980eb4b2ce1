//! `steadfast sessions …`.

use steadfast_api::{
    Page,
    sessions::{EndSession, EndedSession, ListSessions, Session},
};

use super::noun::Noun;
use crate::pages::sessions::columns;

pub(super) fn noun() -> Noun {
    Noun::new("sessions", "List and end sessions of browsers")
        .verb::<ListSessions>("list", &["sessions list"], |_, page| list(page))
        .verb::<EndSession>("end", &["sessions end 0a1b2c…"], |_, EndedSession { id }| {
            format!("ended session {id}\n")
        })
}

fn list(page: &Page<Session>) -> String {
    if page.items.is_empty() {
        return "no sessions; `steadfast login` prints a link that begins one\n".into();
    }
    columns().write(&page.items)
}
