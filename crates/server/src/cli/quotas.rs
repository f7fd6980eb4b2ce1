//! `steadfast quotas …`.

use steadfast_api::{
    Page,
    quotas::{ListQuotas, Quota, QuotaUse, RemoveQuota, SetQuota, ShowQuota, kinds},
};

use super::{noun::Noun, table::Table};

pub(super) fn noun() -> Noun {
    Noun::new("quotas", "Limit the bytes, blobs and spend of organizations")
        .verb::<ListQuotas>("list", &["quotas list"], |_, page| list(page))
        .verb::<ShowQuota>("show", &["quotas show acme"], |_, quota| show(quota))
        .verb::<SetQuota>(
            "set",
            &["quotas set acme --bytes 10GiB --objects 100000 --spend 50"],
            |_, quota| {
                format!("set the quota of organization {}\n{}", quota.organization, show(quota))
            },
        )
        .destroys::<RemoveQuota>(
            "remove",
            &["quotas remove acme --yes"],
            (
                |it| format!("Remove the quota of organization {}?", it.organization),
                |it, _| format!("removed the quota of organization {}\n", it.organization),
            ),
        )
}

fn of(it: QuotaUse, write: fn(u64) -> String) -> String {
    let limit = it.limit.map_or_else(|| "no limit".to_owned(), write);
    format!("{} of {limit}", write(it.used))
}

fn show(quota: &Quota) -> String {
    let rows = kinds(quota).map(|(kind, it, write)| format!("{kind:<18}{}\n", of(it, write)));
    let note = if quota.is_counting { "earlier blobs are still being counted\n" } else { "" };
    format!("{}{note}", rows.concat())
}

fn list(page: &Page<Quota>) -> String {
    if page.items.is_empty() {
        return "no quotas; set one with `steadfast quotas set ORG --bytes 10GiB`\n".into();
    }
    let mut table = Table::new(&["ORGANIZATION", "BYTES", "OBJECTS", "SPEND THIS MONTH"]);
    for quota in &page.items {
        let [bytes, objects, spend] = kinds(quota).map(|(_, it, write)| of(it, write));
        table.row([quota.organization.clone(), bytes, objects, spend]);
    }
    table.write()
}
