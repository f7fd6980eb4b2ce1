//! Causes of differences between environments.

use super::{DriftSummary, FindingSummary, Severity, Standing};

/// A cause that some findings speak for.
pub(super) struct Draft {
    pub(super) cause: String,
    pub(super) confidence: f64,
    pub(super) evidence: Vec<String>,
    pub(super) action: String,
    pub(super) why: &'static str,
}

/// The findings of a summary, by code.
struct Case<'a> {
    summary: &'a DriftSummary,
}

impl<'a> Case<'a> {
    fn all(&self, codes: &[&str]) -> Vec<&'a FindingSummary> {
        self.summary.findings.iter().filter(|it| codes.contains(&&*it.code)).collect()
    }

    fn first(&self, code: &str) -> Option<&'a FindingSummary> {
        self.summary.findings.iter().find(|it| it.code == code)
    }

    fn has(&self, codes: &[&str]) -> bool {
        self.summary.findings.iter().any(|it| codes.contains(&&*it.code))
    }

    /// The side whose value passes a test, if it is only one: its name and the other's.
    fn side(
        &self,
        finding: &FindingSummary,
        test: impl Fn(&str) -> bool,
    ) -> Option<(&'a str, &'a str)> {
        let is = |it: &Option<String>| it.as_deref().is_some_and(&test);
        match (is(&finding.left), is(&finding.right)) {
            (true, false) => Some((&self.summary.left, &self.summary.right)),
            (false, true) => Some((&self.summary.right, &self.summary.left)),
            _ => None,
        }
    }

    /// A draft for the findings of these codes: surer with each of them, with how bad the worst is,
    /// and if something new speaks for it.
    fn draft(
        &self,
        codes: &[&str],
        base: f64,
        cause: impl Into<String>,
        action: impl Into<String>,
        why: &'static str,
    ) -> Option<Draft> {
        let found = self.all(codes);
        let worst = found.iter().map(|it| it.severity).min()?;
        let by_severity = match worst {
            Severity::Critical => 0.1,
            Severity::Warn => 0.0,
            Severity::Info => -0.2,
        };
        let by_number = 0.04 * (found.len() - 1).min(4) as f64;
        let is_new = found.iter().any(|it| it.standing == Standing::New);
        let by_news = if is_new { 0.03 } else { 0.0 };
        let confidence = (base + by_severity + by_number + by_news).clamp(0.05, 0.95);
        let evidence = found.iter().take(6).map(|it| format!("{}: {}", it.code, it.message));
        let (cause, action) = (cause.into(), action.into());
        Some(Draft { cause, confidence, evidence: evidence.collect(), action, why })
    }
}

/// All causes that something speaks for.
pub(super) fn drafts(summary: &DriftSummary) -> Vec<Draft> {
    let case = Case { summary };
    let rules: [fn(&Case<'_>) -> Option<Draft>; 12] = [
        outage, failing, access, missing, routing, cors, caching, content, speed, encryption,
        hardening, front,
    ];
    rules.iter().filter_map(|rule| rule(&case)).collect()
}

fn status(text: &str) -> u16 {
    text.trim().parse().unwrap_or(0)
}

/// A side does not answer.
fn outage(case: &Case<'_>) -> Option<Draft> {
    let found = case.first("PROBE_FAILURE")?;
    let side = case.side(found, |it| !it.starts_with("a response"));
    let who = side.map_or("Each side", |it| it.0);
    let whose = side.map_or("both sides", |it| it.0);
    let values = [found.left.as_deref(), found.right.as_deref()];
    let says = |code: &str| values.iter().flatten().any(|it| it.starts_with(code));
    let (cause, action) = if says("dns_error") {
        ("has no address in DNS: a missing record, or a name that is mistyped", "the DNS records")
    } else if says("tls_error") {
        ("has no valid certificate for this name", "the certificate: names, issuer and end")
    } else if says("timeout") {
        ("is overloaded, or a firewall drops its packets", "health, load and firewall")
    } else if says("ssrf_blocked") {
        ("leads to an address that may not be reached", "the address, or allow the host")
    } else {
        ("is down, or answers no HTTP on this port", "that the service runs and listens")
    };
    let action = format!("Check {action}: {whose}.");
    case.draft(
        &["PROBE_FAILURE"],
        0.8,
        format!("{who} {cause}."),
        action,
        "nothing else matters yet",
    )
}

/// A side answers with an error of its own.
fn failing(case: &Case<'_>) -> Option<Draft> {
    let found = case.first("STATUS_MISMATCH")?;
    let (bad, _) = case.side(found, |it| status(it) >= 500)?;
    let cause =
        format!("{bad} fails inside: a broken release, or something it depends on is down.");
    let action = format!("Read the logs of {bad}, and undo its last deployment if it began then.");
    let codes = ["STATUS_MISMATCH", "BODY_HASH_DRIFT", "CONTENT_TYPE_DRIFT"];
    case.draft(&codes, 0.75, cause, action, "users get errors there")
}

/// A side wants to know who is there.
fn access(case: &Case<'_>) -> Option<Draft> {
    let by_header = case
        .first("AUTH_CHALLENGE_PRESENT")
        .and_then(|it| case.side(it, |value| value != "(absent)" && !value.is_empty()));
    let by_status = case
        .first("STATUS_MISMATCH")
        .and_then(|it| case.side(it, |value| matches!(status(value), 401 | 403)));
    let codes = ["AUTH_CHALLENGE_PRESENT", "STATUS_MISMATCH"];
    let (cause, action) = match by_header.or(by_status) {
        Some((closed, open)) => (
            format!("{closed} is behind authentication, {open} is not."),
            format!("Decide whether {open} may be open, and protect both in the same way."),
        ),
        None => (
            "Both sides authenticate, but with different schemes or realms.".to_owned(),
            "Compare the configuration of authentication on both sides.".to_owned(),
        ),
    };
    let has_challenge = case.has(&["AUTH_CHALLENGE_PRESENT"]);
    let codes = if by_status.is_some() { &codes[..] } else { &codes[..1] };
    let base = if has_challenge { 0.75 } else { 0.65 };
    case.draft(codes, base, cause, action, "either a door is open, or users are locked out")
}

/// A side does not have the page.
fn missing(case: &Case<'_>) -> Option<Draft> {
    let found = case.first("STATUS_MISMATCH")?;
    let (bad, _) = case.side(found, |it| matches!(status(it), 404 | 410))?;
    let cause = format!("The path is not deployed on {bad}, or not routed there.");
    let action = format!("Check the deployed version and the routes of {bad}.");
    case.draft(&["STATUS_MISMATCH"], 0.7, cause, action, "the page is missing there")
}

/// Requests end up elsewhere.
fn routing(case: &Case<'_>) -> Option<Draft> {
    // Two environments have two addresses: that alone is no sign of anything.
    let is_sign = |it: &&FindingSummary| it.severity != Severity::Info;
    let final_url = case.first("FINAL_URL_MISMATCH").filter(is_sign);
    final_url.or(case.first("REDIRECT_CHAIN_CHANGED"))?;
    case.draft(
        &["FINAL_URL_MISMATCH", "REDIRECT_CHAIN_CHANGED"],
        0.55,
        "Redirects differ: another canonical host, base URL or rule of a load balancer.",
        "Compare redirect rules and base URLs on both sides.",
        "links, cookies and caches belong to a host",
    )
}

fn cors(case: &Case<'_>) -> Option<Draft> {
    case.draft(
        &["CORS_HEADER_DRIFT"],
        0.7,
        "The origins, methods or headers that other sites may use are configured per environment.",
        "Compare the CORS configuration, and test the browser application against both sides.",
        "browsers refuse on one side what works on the other",
    )
}

fn caching(case: &Case<'_>) -> Option<Draft> {
    let is_vary = |it: &&FindingSummary| it.code == "UNKNOWN_DRIFT" && it.message.contains("vary");
    let has_vary = case.summary.findings.iter().any(|it| is_vary(&it));
    let codes = ["CACHE_HEADER_DRIFT", "UNKNOWN_DRIFT"];
    let codes = if has_vary { &codes[..] } else { &codes[..1] };
    case.draft(
        codes,
        0.65,
        "Caches get different instructions from the application, or from a CDN in front of it.",
        "Compare Cache-Control and Vary in the application and in the rules of the CDN.",
        "old or private answers may be shown to the wrong user",
    )
}

/// The answers themselves differ.
fn content(case: &Case<'_>) -> Option<Draft> {
    let codes = ["BODY_HASH_DRIFT", "CONTENT_LENGTH_DRIFT", "CONTENT_TYPE_DRIFT"];
    let kind = case.first("CONTENT_TYPE_DRIFT");
    let is_other = kind.is_some_and(|it| it.severity == Severity::Critical);
    let (base, cause, action) = if is_other {
        (
            0.6,
            "One side answers with another kind of thing: an error page, a login page or another \
             serializer.",
            "Open both URLs and compare what they show.",
        )
    } else {
        (
            0.5,
            "Different versions, feature flags or data are deployed.",
            "Compare the deployed versions, feature flags and data of both sides.",
        )
    };
    case.draft(&codes, base, cause, action, "clients depend on what is answered")
}

fn speed(case: &Case<'_>) -> Option<Draft> {
    let found = case.first("TIMING_DRIFT")?;
    let is_left = found.message.contains("left side is slower");
    let names = (&case.summary.left, &case.summary.right);
    let slow = if is_left { names.0 } else { names.1 };
    let others = ["CF_CONTEXT_DRIFT", "PLATFORM_DRIFT", "HTTP_PROTOCOL_DRIFT", "TLS_DRIFT"];
    let (base, cause) = if case.has(&others) {
        (0.5, format!("{slow} is reached by another way: another place, proxy or protocol."))
    } else if case.has(&["CACHE_HEADER_DRIFT"]) {
        (0.45, format!("{slow} is slower because its answers are cached less."))
    } else {
        (0.4, format!("{slow} has less capacity, a cold start or a slower dependency."))
    };
    let codes = ["TIMING_DRIFT", others[0], others[1], others[2], others[3]];
    let action = "Compare a few more times, then look at which phase takes long.";
    case.draft(&codes, base, cause, action, "one measurement may be an accident")
}

fn encryption(case: &Case<'_>) -> Option<Draft> {
    let codes = ["TLS_DRIFT", "CERTIFICATE_DRIFT", "HTTP_PROTOCOL_DRIFT"];
    let expiring = case
        .summary
        .findings
        .iter()
        .find(|it| it.code == "CERTIFICATE_DRIFT" && it.message.contains("ends soon"));
    if expiring.is_some() {
        let cause = "A certificate is not renewed by itself as it should be.";
        let action = "Renew the certificate now, and repair its automatic renewal.";
        return case.draft(&codes[1..2], 0.75, cause, action, "the site breaks when it ends");
    }
    case.draft(
        &codes,
        0.5,
        "TLS ends at different places: another load balancer, CDN or server configuration.",
        "Compare the TLS settings and certificates of both sides.",
        "old clients may fail on one side only",
    )
}

fn hardening(case: &Case<'_>) -> Option<Draft> {
    case.draft(
        &["SECURITY_HEADER_DRIFT", "COOKIE_FLAG_DRIFT", "COOKIE_PRESENCE_DRIFT"],
        0.65,
        "Headers and flags that protect users are set in one environment only.",
        "Set security headers and cookie flags in one place that both environments share.",
        "what is not tested in staging breaks, or is missing, in production",
    )
}

/// Much of what a gateway sets differs, so the gateway may be what differs.
fn front(case: &Case<'_>) -> Option<Draft> {
    let codes = [
        "AUTH_CHALLENGE_PRESENT",
        "CORS_HEADER_DRIFT",
        "CACHE_HEADER_DRIFT",
        "SECURITY_HEADER_DRIFT",
        "PLATFORM_DRIFT",
        "CF_CONTEXT_DRIFT",
        "TLS_DRIFT",
    ];
    let kinds = codes.iter().filter(|it| case.has(&[**it])).count();
    if kinds < 3 && !case.has(&codes[4..6]) {
        return None;
    }
    let base = if kinds >= 3 { 0.55 } else { 0.35 };
    case.draft(
        &codes,
        base,
        "Another gateway, proxy or CDN configuration stands in front of one side.",
        "Compare the configuration of gateway, proxy and CDN before that of the application.",
        "one change there explains several differences",
    )
}
