//! Takes known secrets out of everything that a server said.

use super::redact::Known;
use crate::envelope::{
    Certificate, CfContext, HeaderGroups, Hop, Platform, ProbeFailure, ProbeResponse, ProbeResult,
    RedirectHop, ResponseMetadata, SignalEnvelope,
};

/// Takes the secrets out of every text of an envelope that a server has written.
pub(super) fn scrub(envelope: &mut SignalEnvelope, known: &Known) {
    let text = |it: &mut String| known.take_out(it);
    text(&mut envelope.requested_url);
    if let Some(CfContext { colo, country, asn: _, tls_version: _, http_protocol: _ }) =
        &mut envelope.cf
    {
        [colo, country].into_iter().flatten().for_each(text);
    }
    if let Some(Platform { server, via, powered_by }) = &mut envelope.platform {
        [server, via, powered_by].into_iter().flatten().for_each(text);
    }
    match &mut envelope.result {
        ProbeResult::Response(it) => {
            let ProbeResponse { response, redirects, hops, .. } = &mut **it;
            scrub_response(response, known);
            scrub_way(redirects, hops, known);
        }
        ProbeResult::Failure(it) => {
            let ProbeFailure { error, redirects, hops, .. } = &mut **it;
            text(&mut error.message);
            scrub_certificates(&mut error.certificates, known);
            scrub_way(redirects, hops, known);
        }
    }
}

fn scrub_response(response: &mut ResponseMetadata, known: &Known) {
    let ResponseMetadata { final_url, headers, cookies, content_type, .. } = response;
    let HeaderGroups { core, access_control, other } = headers;
    let more = [access_control, other].into_iter().flatten();
    let values = more.chain([core]).flat_map(|it| it.values_mut());
    let names = cookies.iter_mut().map(|it| &mut it.name);
    values.chain(names).chain([final_url]).chain(content_type).for_each(|it| known.take_out(it));
}

fn scrub_way(redirects: &mut [RedirectHop], hops: &mut [Hop], known: &Known) {
    for RedirectHop { from_url, to_url, status: _ } in redirects {
        known.take_out(from_url);
        known.take_out(to_url);
    }
    for hop in hops {
        known.take_out(&mut hop.url);
        if let Some(tls) = &mut hop.tls {
            scrub_certificates(&mut tls.certificates, known);
        }
    }
}

fn scrub_certificates(certificates: &mut [Certificate], known: &Known) {
    for it in certificates {
        let names = it.names.iter_mut().chain([&mut it.subject, &mut it.issuer]);
        names.for_each(|it| known.take_out(it));
    }
}
