//! Organizations that have used most of their quotas.

use steadfast_api::{quotas::Quota, server::Check};

use crate::server::Server;

/// Percent of a quota from which on it is reported.
const NEARLY: u64 = 90;

/// Quotas per read.
const PAGE: usize = 1_000;

/// Names the organizations that are near their limits; `None` if there are no quotas.
pub(super) async fn check(server: &Server) -> Option<Check> {
    let name = "quotas";
    let buckets = server.buckets().ok()?;
    let (mut count, mut full, mut last) = (0, Vec::new(), None);
    loop {
        let page = match buckets.quotas(last.as_deref(), PAGE).await {
            Ok(page) => page,
            Err(error) => return Some(Check::failed(name, format!("cannot be read: {error}"))),
        };
        let Some(end) = page.last() else { break };
        (last, count) = (Some(end.organization.clone()), count + page.len());
        full.extend(page.into_iter().filter_map(|it| nearly_full(&it)));
    }
    if count == 0 {
        return None;
    }
    if full.is_empty() {
        return Some(Check::ok(name, format!("{count}, each used below {NEARLY} %")));
    }
    let shown = full.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("; ");
    let detail = format!(
        "{} of {count} organizations use {NEARLY} % or more: {shown}; raise a quota with \
         `steadfast quotas set`",
        full.len()
    );
    Some(Check::warning(name, detail))
}

fn nearly_full(quota: &Quota) -> Option<String> {
    let kinds = [("bytes", quota.bytes), ("objects", quota.objects), ("spend", quota.spend_micros)];
    let full: Vec<&str> = kinds.iter().filter(|it| it.1.reaches(NEARLY)).map(|it| it.0).collect();
    (!full.is_empty()).then(|| format!("{} ({})", quota.organization, full.join(", ")))
}
