//! `steadfast quotas …`.

use steadfast_api::{
    Page,
    quotas::{ListQuotas, Quota, RemoveQuota, SetQuota, ShowQuota, kinds},
};

use super::noun::Noun;
use crate::pages::quotas::{columns, of};

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

fn show(quota: &Quota) -> String {
    let rows = kinds(quota).map(|(kind, it, write)| format!("{kind:<18}{}\n", of(it, write)));
    let note = if quota.is_counting { "earlier blobs are still being counted\n" } else { "" };
    format!("{}{note}", rows.concat())
}

fn list(page: &Page<Quota>) -> String {
    if page.items.is_empty() {
        return "no quotas; set one with `steadfast quotas set ORG --bytes 10GiB`\n".into();
    }
    columns().write(&page.items)
}
