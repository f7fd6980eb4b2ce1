//! `steadfast sessions …`.

use steadfast_api::{
    Page,
    sessions::{EndSession, EndedSession, ListSessions, Session},
};

use super::{
    noun::Noun,
    table::{Table, or_dash},
};

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
    let headings = [
        "SESSION",
        "TOKEN",
        "NAME",
        "ROLE",
        "ORGANIZATION",
        "CLIENT",
        "BEGUN",
        "LAST USED",
        "ENDS",
    ];
    let mut table = Table::new(&headings);
    for it in &page.items {
        table.row([
            it.id.clone(),
            it.token.clone(),
            or_dash(it.name.as_deref()),
            it.role.name().into(),
            or_dash(it.organization.as_deref()),
            or_dash(it.client.as_deref()),
            it.begun_at.rfc3339(),
            it.last_used_at.rfc3339(),
            it.ends_at.rfc3339(),
        ]);
    }
    table.write()
}
