//! H: the connections themselves.

use steadfast_core::store::Timestamp;

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity, worst};
use crate::{
    diff::sections::last_tls,
    envelope::{Certificate, ProbeResponse, SignalEnvelope},
};

/// A certificate that ends within so many days should be renewed.
pub const CERTIFICATE_WARN_DAYS: i64 = 14;
/// A certificate that ends within so many days must be renewed today.
pub const CERTIFICATE_CRIT_DAYS: i64 = 3;

/// The versions of HTTP differ.
pub(super) fn protocol(scene: &Scene<'_>, is_slower: bool, found: &mut Found) {
    let change = scene.diff.cf.as_ref().and_then(|it| it.http_protocol.as_ref());
    let Some(change) = change.filter(|it| it.changed) else { return };
    let (Some(left), Some(right)) = (&change.left, &change.right) else { return };
    let severity = if is_slower { Severity::Warn } else { Severity::Info };
    let message = format!("The protocol differs: {left} and {right}");
    let evidence = Evidence::new(Section::Cf, ["httpProtocol"]);
    let code = Code::HttpProtocolDrift;
    found.push(
        DiffFinding::new(code, Category::Platform, severity, message, evidence)
            .values(Some(left), Some(right))
            .advise("Enable the same versions of HTTP where TLS ends on both sides."),
    );
}

/// The encryption differs.
pub(super) fn encryption(scene: &Scene<'_>, found: &mut Found) {
    let Some(tls) = &scene.diff.tls else { return };
    let (Some(version), Some(cipher)) = (&tls.version, &tls.cipher) else { return };
    let (keys, severity, message): (&[&str], _, _) = match (&version.left, &version.right) {
        (Some(_), None) => (&["version"], Severity::Critical, "Only the left side is encrypted"),
        (None, Some(_)) => (&["version"], Severity::Critical, "Only the right side is encrypted"),
        _ if version.changed => (&["version"], Severity::Warn, "The versions of TLS differ"),
        _ if cipher.changed => (&["cipher"], Severity::Info, "The cipher suites differ"),
        _ => return,
    };
    let shown = |version: &Option<String>, cipher: &Option<String>| {
        Some(format!("{} {}", version.as_ref()?, cipher.as_deref().unwrap_or_default()))
    };
    let left = shown(&version.left, &cipher.left);
    let right = shown(&version.right, &cipher.right);
    let evidence = Evidence::new(Section::Tls, keys.iter().copied());
    found.push(
        DiffFinding::new(Code::TlsDrift, Category::Security, severity, message, evidence)
            .values(left.as_deref(), right.as_deref())
            .advise("Compare the TLS settings of both load balancers or servers."),
    );
}

/// The certificates differ in kind, or one is about to end.
pub(super) fn certificates(scene: &Scene<'_>, found: &mut Found) {
    let leaf = |it: &'_ ProbeResponse| last_tls(it).and_then(|it| it.certificates.first().cloned());
    let (left, right) = (leaf(scene.left_probe), leaf(scene.right_probe));
    expiry(scene, left.as_ref(), right.as_ref(), found);
    let (Some(left), Some(right)) = (left, right) else { return };
    let mut keys = Vec::new();
    if left.issuer != right.issuer {
        keys.push("issuer");
    }
    if left.key != right.key {
        keys.push("key");
    }
    if keys.is_empty() {
        return;
    }
    let shown = |it: &Certificate| format!("{} for {} by {}", it.key, it.subject, it.issuer);
    let message = format!("The certificates differ in their {}", keys.join(" and "));
    let evidence = Evidence::new(Section::Tls, keys);
    let code = Code::CertificateDrift;
    found.push(
        DiffFinding::new(code, Category::Security, Severity::Info, message, evidence)
            .values(Some(&shown(&left)), Some(&shown(&right)))
            .advise("Check that both sides get their certificates in the same way."),
    );
}

/// How many days a certificate had left when it was seen.
fn days_left(side: &SignalEnvelope, certificate: Option<&Certificate>) -> Option<i64> {
    let second = |text: &str| Some(Timestamp::from_rfc3339(text)?.0.div_euclid(1_000));
    let seen = second(&side.captured_at)?;
    Some((second(&certificate?.not_after)? - seen).div_euclid(86_400))
}

fn expiry(
    scene: &Scene<'_>,
    left: Option<&Certificate>,
    right: Option<&Certificate>,
    found: &mut Found,
) {
    let days = (days_left(scene.left, left), days_left(scene.right, right));
    let weight = |days: Option<i64>| match days {
        Some(..=CERTIFICATE_CRIT_DAYS) => Some(Severity::Critical),
        Some(..=CERTIFICATE_WARN_DAYS) => Some(Severity::Warn),
        Some(_) | None => None,
    };
    let (of_left, of_right) = (weight(days.0), weight(days.1));
    let side = match (of_left, of_right) {
        (None, None) => return,
        (Some(_), None) => "the left side",
        (None, Some(_)) => "the right side",
        (Some(_), Some(_)) => "both sides",
    };
    let message = format!("The certificate of {side} ends soon");
    let evidence = Evidence::new(Section::Tls, ["expiry"]);
    let severity = worst(of_left.into_iter().chain(of_right));
    let shown = |days: Option<i64>, it: Option<&Certificate>| {
        Some(format!("{} days left, until {}", days?, it?.not_after))
    };
    let code = Code::CertificateDrift;
    found.push(
        DiffFinding::new(code, Category::Security, severity, message, evidence)
            .values(shown(days.0, left).as_deref(), shown(days.1, right).as_deref())
            .advise("Renew the certificate, and find out why it was not renewed by itself."),
    );
}
