//! `steadfast audit …`.

use steadfast_api::{
    Page,
    audit::{AuditEntry, ListAudit},
};

use super::{
    noun::Noun,
    table::{Table, or_dash},
};

pub(super) fn noun() -> Noun {
    Noun::new("audit", "Read the audit log").verb::<ListAudit>(
        "tail",
        &["audit tail --limit 20"],
        |_, page| tail(page),
    )
}

fn tail(page: &Page<AuditEntry>) -> String {
    if page.items.is_empty() {
        return "nothing is recorded; records begin when access is closed\n".into();
    }
    let mut table = Table::new(&[
        "NUMBER", "AT", "TOKEN", "NAME", "CLIENT", "ACTION", "TARGET", "OUTCOME", "DETAIL",
    ]);
    for it in page.items.iter().rev() {
        table.row([
            it.number.to_string(),
            it.at.clone(),
            or_dash(it.token.as_deref()),
            or_dash(it.name.as_deref()),
            it.client.clone(),
            it.action.clone(),
            it.target.clone(),
            it.outcome.clone(),
            or_dash(Some(&*it.facts()).filter(|it| !it.is_empty())),
        ]);
    }
    table.write()
}
