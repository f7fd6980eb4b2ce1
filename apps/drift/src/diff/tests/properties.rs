use proptest::{collection, option, prelude::*, sample};

use super::*;
use crate::envelope::Headers;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", "[a-z=,;/ -]{0,20}", Just(String::new()), "[A-Z]{3}"]
}

fn url() -> impl Strategy<Value = String> {
    prop_oneof![text(), "https?://[ab]\\.example(:[0-9]{1,4})?/[ab]?(\\?[ab])?"]
}

fn headers() -> impl Strategy<Value = Headers> {
    let known = sample::select(vec![
        "cache-control",
        "vary",
        "www-authenticate",
        "location",
        "content-type",
        "allow",
        "strict-transport-security",
        "content-security-policy",
        "x-frame-options",
        "access-control-allow-origin",
        "access-control-max-age",
        "content-encoding",
        "date",
    ]);
    let name = prop_oneof![known.prop_map(str::to_owned), text()];
    collection::btree_map(name, text(), 0..6)
}

fn secured() -> impl Strategy<Value = Option<Tls>> {
    let certificate = (text(), text(), text()).prop_map(|(issuer, key, not_after)| Certificate {
        issuer,
        key,
        not_after,
        ..Certificate::default()
    });
    let tls = (text(), text(), collection::vec(certificate, 0..2));
    let tls = tls.prop_map(|(version, cipher, certificates)| Tls { version, cipher, certificates });
    option::of(tls)
}

fn cookies() -> impl Strategy<Value = Vec<Cookie>> {
    let cookie = ("[ab]", any::<bool>(), any::<bool>(), option::of(text()));
    let cookie = cookie.prop_map(|(name, secure, http_only, same_site)| Cookie {
        name,
        secure,
        http_only,
        same_site,
    });
    collection::vec(cookie, 0..3)
}

fn response() -> impl Strategy<Value = ResponseMetadata> {
    let body = (option::of(any::<u64>()), option::of("[ab]"), option::of(0..3_u64));
    let kind = option::of(prop_oneof![text(), Just("text/html".to_owned())]);
    let groups = (headers(), option::of(headers()), option::of(headers()));
    (any::<u16>(), url(), groups, cookies(), kind, body, any::<bool>()).prop_map(
        |(status, final_url, groups, cookies, content_type, body, is_broken)| ResponseMetadata {
            status,
            final_url,
            headers: HeaderGroups { core: groups.0, access_control: groups.1, other: groups.2 },
            cookies,
            content_type,
            content_length: body.0,
            body_hash: body.1,
            hashed_bytes: body.2,
            body_error: is_broken.then_some(ProbeErrorCode::FetchError),
        },
    )
}

fn envelope(side: Side) -> impl Strategy<Value = SignalEnvelope> {
    let redirect = (url(), url(), 300..310_u16);
    let redirect =
        redirect.prop_map(|it| RedirectHop { from_url: it.0, to_url: it.1, status: it.2 });
    let platform = option::of((option::of(text()), option::of(text())));
    let cf = option::of((option::of(text()), option::of(any::<u32>()), option::of(text())));
    let parts = (response(), collection::vec(redirect, 0..3), secured(), any::<u64>());
    (parts, platform, cf, url(), text(), 0..8_u8).prop_map(
        move |((response, redirects, tls, duration_ms), platform, cf, asked, at, luck)| {
            if luck == 0 {
                return failed(side, ProbeErrorCode::Timeout);
            }
            let mut envelope = answer(side);
            envelope.requested_url = asked;
            if luck > 4 {
                envelope.captured_at = at;
            }
            envelope.platform =
                platform.map(|it| Platform { server: it.0, via: it.1, powered_by: None });
            envelope.cf = cf.map(|it| CfContext {
                colo: it.0,
                asn: it.1,
                http_protocol: it.2,
                ..CfContext::default()
            });
            let probe = probe(&mut envelope);
            (probe.response, probe.redirects, probe.duration_ms) =
                (response, redirects, duration_ms);
            probe.hops[0].tls = tls;
            envelope
        },
    )
}

proptest! {
    #[test]
    fn the_engine_never_panics_is_deterministic_and_keeps_its_contract(
        left in envelope(Side::Left),
        right in envelope(Side::Right),
        expect_requested: bool,
    ) {
        let options = DiffOptions { expect_requested };
        let diff = compute("c", &left, &right, options);
        let bytes = serde_json::to_vec(&diff).unwrap();
        let twice = compute("c", &left, &right, options);
        prop_assert_eq!(&bytes, &serde_json::to_vec(&twice).unwrap());
        // A stored diff that is read again is compared as before.
        let again = |it: &SignalEnvelope| -> SignalEnvelope {
            serde_json::from_slice(&serde_json::to_vec(it).unwrap()).unwrap()
        };
        let stored = compute("c", &again(&left), &again(&right), options);
        prop_assert_eq!(&bytes, &serde_json::to_vec(&stored).unwrap());
        let back: EnvDiff = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(&back, &diff);
        let mut ids = std::collections::BTreeSet::new();
        for finding in &diff.findings {
            prop_assert!(ids.insert(&finding.id));
            prop_assert!(!finding.recommendations.is_empty() && !finding.message.is_empty());
            for evidence in &finding.evidence {
                prop_assert!(evidence.keys.iter().all(|it| evidence.section.has_key(it)));
                prop_assert!(evidence.keys.is_sorted_by(|a, b| a < b));
            }
        }
        prop_assert!(diff.findings.is_sorted_by_key(|it| (it.severity, it.code.as_str())));
        let worst = diff.findings.iter().map(|it| it.severity).min().unwrap_or(Severity::Info);
        prop_assert_eq!(diff.max_severity, worst);
    }

    #[test]
    fn an_envelope_has_no_drift_to_itself(left in envelope(Side::Left)) {
        let diff = compute("c", &left, &left, DiffOptions::default());
        let is_known = |it: &DiffFinding| {
            it.code == Code::ProbeFailure || it.id == "CERTIFICATE_DRIFT:tls:expiry"
        };
        prop_assert!(diff.findings.iter().all(is_known), "{:?}", diff.findings);
    }
}
