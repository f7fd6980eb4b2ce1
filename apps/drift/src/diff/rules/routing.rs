//! B: where a request ends up.

use url::Url;

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity, worst};
use crate::envelope::{ProbeResponse, RedirectHop, SignalEnvelope};

/// B1: the statuses differ.
pub(super) fn status(scene: &Scene<'_>, found: &mut Found) {
    let left = scene.left_probe.response.status;
    let right = scene.right_probe.response.status;
    if left == right {
        return;
    }
    let is_error = |status: u16| status / 100 == 4 || status / 100 == 5;
    let is_good = |status: u16| status / 100 == 2;
    let is_redirect = |status: u16| status / 100 == 3;
    let is_broken = is_good(left) && is_error(right) || is_error(left) && is_good(right);
    let is_critical = is_broken || is_redirect(left) != is_redirect(right);
    let severity = if is_critical { Severity::Critical } else { Severity::Warn };
    let message = format!("The status differs: {left} and {right}");
    let evidence = Evidence::new(Section::Status, []);
    let finding =
        DiffFinding::new(Code::StatusMismatch, Category::Routing, severity, message, evidence)
            .values(Some(&left.to_string()), Some(&right.to_string()));
    found.push(match left.max(right) {
        500.. => finding.advise("Read the server's log of the failing side at this time."),
        401 | 403 => finding.advise("Compare who may see this path on both sides."),
        404 | 410 => finding.advise("Check that the path is deployed and routed on both sides."),
        _ => finding.advise("Compare the routes and the handler of this path on both sides."),
    });
}

/// The parts of a URL that are compared. The port belongs to the host.
fn parts(url: &Url) -> [(&'static str, String); 4] {
    let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
    [
        ("scheme", url.scheme().to_owned()),
        ("host", format!("{}{port}", url.host_str().unwrap_or_default())),
        ("path", url.path().to_owned()),
        ("query", url.query().unwrap_or_default().to_owned()),
    ]
}

/// B2: the redirects end at different URLs.
pub(super) fn final_url(scene: &Scene<'_>, found: &mut Found) {
    let left = &scene.left_probe.response.final_url;
    let right = &scene.right_probe.response.final_url;
    if left == right {
        return;
    }
    let mut keys = Vec::new();
    let mut severity = Severity::Info;
    if let (Ok(l), Ok(r)) = (Url::parse(left), Url::parse(right)) {
        let asked = (asked_for(scene.left, scene), asked_for(scene.right, scene));
        for (at, (l, r)) in parts(&l).into_iter().zip(parts(&r)).enumerate() {
            if l.1 == r.1 {
                continue;
            }
            keys.push(l.0);
            let is_asked = |asked: &Option<Url>, got: &str| {
                asked.as_ref().is_some_and(|it| parts(it)[at].1 == got)
            };
            let is_expected = is_asked(&asked.0, &l.1) && is_asked(&asked.1, &r.1);
            severity = worst([severity, if is_expected { Severity::Info } else { weight(l.0) }]);
        }
    }
    if keys.is_empty() {
        // Not URLs, or different in nothing that we know: told as a whole.
        keys.push("finalUrl");
        severity = Severity::Warn;
    }
    let message = format!("The final URL differs in its {}", keys.join(" and "));
    let evidence = Evidence::new(Section::FinalUrl, keys);
    found.push(
        DiffFinding::new(Code::FinalUrlMismatch, Category::Routing, severity, message, evidence)
            .values(Some(left), Some(right))
            .advise("Compare redirects, canonical hosts and base URLs in both configurations."),
    );
}

fn weight(part: &str) -> Severity {
    if matches!(part, "scheme" | "host") { Severity::Critical } else { Severity::Warn }
}

/// The requested URL, if it counts as expected.
fn asked_for(side: &SignalEnvelope, scene: &Scene<'_>) -> Option<Url> {
    scene.options.expect_requested.then(|| Url::parse(&side.requested_url).ok()).flatten()
}

/// B3: the redirects differ.
pub(super) fn redirects(scene: &Scene<'_>, found: &mut Found) {
    let Some(diff) = &scene.diff.redirects else { return };
    let (left, right) = (scene.left_probe, scene.right_probe);
    if !diff.chain_changed || chain(scene.left, left, scene) == chain(scene.right, right, scene) {
        return;
    }
    let host = |it: &ProbeResponse| {
        Url::parse(&it.response.final_url).ok().and_then(|it| it.host_str().map(str::to_owned))
    };
    let asked =
        |it: &SignalEnvelope| asked_for(it, scene).and_then(|it| it.host_str().map(str::to_owned));
    let is_home = |asked: Option<String>, at: &Option<String>| asked.is_some() && asked == *at;
    let ends = (host(left), host(right));
    let is_expected = is_home(asked(scene.left), &ends.0) && is_home(asked(scene.right), &ends.1);
    let mut keys = vec!["chain"];
    let mut severity = Severity::Info;
    if diff.hop_count.changed {
        keys.push("hopCount");
        severity = Severity::Warn;
    }
    if ends.0 != ends.1 && !is_expected {
        keys.push("finalHost");
        severity = Severity::Critical;
    }
    let message = match (diff.hop_count.changed, severity) {
        (_, Severity::Critical) => "The redirects lead to different hosts".to_owned(),
        (true, _) => {
            let (left, right) = (diff.left.len(), diff.right.len());
            format!("The number of redirects differs: {left} and {right}")
        }
        (false, _) => "The redirects go different ways".to_owned(),
    };
    let evidence = Evidence::new(Section::Redirects, keys);
    let code = Code::RedirectChainChanged;
    found.push(
        DiffFinding::new(code, Category::Routing, severity, message, evidence)
            .values(Some(&drawn(&diff.left)), Some(&drawn(&diff.right)))
            .advise("Compare the redirect rules of load balancer, CDN and application."),
    );
}

/// A chain to compare; with the host that was asked for under one name, if that is expected.
fn chain(
    side: &SignalEnvelope,
    probe: &ProbeResponse,
    scene: &Scene<'_>,
) -> Vec<(String, String, u16)> {
    let home = asked_for(side, scene).map(|it| it.origin());
    let renamed = |text: &str| match (Url::parse(text), &home) {
        (Ok(url), Some(home)) if url.origin() == *home => {
            format!("requested:{}?{}", url.path(), url.query().unwrap_or_default())
        }
        _ => text.to_owned(),
    };
    let step = |it: &RedirectHop| (renamed(&it.from_url), renamed(&it.to_url), it.status);
    probe.redirects.iter().map(step).collect()
}

fn drawn(hops: &[RedirectHop]) -> String {
    let Some(first) = hops.first() else { return "no redirect".to_owned() };
    let mut text = first.from_url.clone();
    for hop in hops {
        text.push_str(&format!(" -{}-> {}", hop.status, hop.to_url));
    }
    text
}
