//! Certificates in words.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, prelude::FromDer, public_key::PublicKey,
    time::ASN1Time,
};

use crate::envelope::Certificate;

/// How many certificates of a chain are kept.
const CHAIN_MAX: usize = 5;
/// How many names of a certificate are kept.
const NAMES_MAX: usize = 25;
/// How much of a name is kept, in characters.
const TEXT_MAX: usize = 200;

/// A chain in words, as it was sent.
pub(super) fn summary(chain: &[CertificateDer<'_>]) -> Vec<Certificate> {
    chain.iter().take(CHAIN_MAX).map(|it| one(it)).collect()
}

fn one(der: &[u8]) -> Certificate {
    let fingerprint = HEXLOWER.encode(&Sha256::digest(der));
    let Ok((_, parsed)) = X509Certificate::from_der(der) else {
        let subject = "(unreadable)".to_owned();
        return Certificate { subject, fingerprint, ..Certificate::default() };
    };
    Certificate {
        subject: clean(&parsed.subject().to_string()),
        issuer: clean(&parsed.issuer().to_string()),
        names: names(&parsed),
        not_before: time(parsed.validity().not_before),
        not_after: time(parsed.validity().not_after),
        serial: HEXLOWER.encode(parsed.raw_serial()),
        key: key(&parsed),
        fingerprint,
    }
}

/// Text of strangers: no control characters, and not too much.
fn clean(text: &str) -> String {
    text.chars().filter(|it| super::redact::is_readable(*it)).take(TEXT_MAX).collect()
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let Some(extension) = extension else { return Vec::new() };
    let name = |it: &GeneralName<'_>| match it {
        GeneralName::DNSName(name) => Some(clean(name)),
        GeneralName::IPAddress(bytes) => address(bytes),
        GeneralName::OtherName(..)
        | GeneralName::RFC822Name(_)
        | GeneralName::X400Address(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EDIPartyName(_)
        | GeneralName::URI(_)
        | GeneralName::RegisteredID(_)
        | GeneralName::Invalid(..) => None,
    };
    let mut names: Vec<String> =
        extension.value.general_names.iter().filter_map(name).take(NAMES_MAX).collect();
    names.sort();
    names.dedup();
    names
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| std::net::IpAddr::from(it).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| std::net::IpAddr::from(it).to_string()))
        .ok()
}

fn time(at: ASN1Time) -> String {
    Timestamp::from_second(at.timestamp()).map(|it| it.to_string()).unwrap_or_default()
}

fn key(certificate: &X509Certificate<'_>) -> String {
    let key = certificate.public_key();
    match key.parsed() {
        Ok(PublicKey::RSA(it)) => format!("RSA {}", it.key_size()),
        Ok(PublicKey::EC(it)) => format!("EC {}", it.key_size()),
        _ => match key.algorithm.algorithm.to_id_string().as_str() {
            "1.3.101.112" => "Ed25519".to_owned(),
            oid => oid.to_owned(),
        },
    }
}
