//! Certificates in words.

use data_encoding::HEXLOWER;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use steadfast_core::store::{DateTime, Timestamp};
use x509_cert::{
    certificate::{CertificateInner, Raw, TbsCertificateInner},
    der::{Decode, Reader, SliceReader, asn1::UintRef, oid::AssociatedOid},
    ext::pkix::{SubjectAltName, name::GeneralName},
    name::Name,
    time::Time,
};

use crate::envelope::Certificate;

type Tbs = TbsCertificateInner<Raw>;

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
    // Lenient: a serial number may be longer than the standard allows.
    let Ok(parsed) = CertificateInner::<Raw>::from_der(der) else {
        let subject = "(unreadable)".to_owned();
        return Certificate { subject, fingerprint, ..Certificate::default() };
    };
    let parsed = parsed.tbs_certificate;
    Certificate {
        subject: name(&parsed.subject),
        issuer: name(&parsed.issuer),
        names: names(&parsed),
        not_before: time(parsed.validity.not_before),
        not_after: time(parsed.validity.not_after),
        serial: HEXLOWER.encode(parsed.serial_number.as_bytes()),
        key: key(&parsed),
        fingerprint,
    }
}

/// A name as the certificate has it, from the country to the common name.
fn name(name: &Name) -> String {
    let parts: Vec<String> = name.0.iter().map(ToString::to_string).collect();
    clean(&parts.join(", "))
}

/// Text of strangers: no control characters, and not too much.
fn clean(text: &str) -> String {
    text.chars().filter(|it| super::redact::is_readable(*it)).take(TEXT_MAX).collect()
}

fn names(certificate: &Tbs) -> Vec<String> {
    let extensions = certificate.extensions.iter().flatten();
    let extension = extensions.clone().find(|it| it.extn_id == SubjectAltName::OID);
    let names = extension.and_then(|it| SubjectAltName::from_der(it.extn_value.as_bytes()).ok());
    let name = |it: &GeneralName| match it {
        GeneralName::DnsName(name) => Some(clean(name.as_str())),
        GeneralName::IpAddress(bytes) => address(bytes.as_bytes()),
        GeneralName::OtherName(_)
        | GeneralName::Rfc822Name(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::UniformResourceIdentifier(_)
        | GeneralName::RegisteredId(_) => None,
    };
    let names = names.map_or(Vec::new(), |it| it.0);
    let mut names: Vec<String> = names.iter().filter_map(name).take(NAMES_MAX).collect();
    names.sort();
    names.dedup();
    names
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| std::net::IpAddr::from(it).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| std::net::IpAddr::from(it).to_string()))
        .ok()
}

fn time(at: Time) -> String {
    let seconds = i64::try_from(at.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    let time = DateTime::of(Timestamp(seconds.saturating_mul(1_000)));
    time.map(|it| it.to_string()).unwrap_or_default()
}

fn key(certificate: &Tbs) -> String {
    let key = &certificate.subject_public_key_info;
    let bytes = key.subject_public_key.raw_bytes();
    match key.algorithm.oid.to_string().as_str() {
        "1.2.840.113549.1.1.1" => match rsa_bits(bytes) {
            Some(bits) => format!("RSA {bits}"),
            None => "RSA".to_owned(),
        },
        "1.2.840.10045.2.1" => format!("EC {}", ec_bits(bytes)),
        "1.3.101.112" => "Ed25519".to_owned(),
        oid => oid.to_owned(),
    }
}

/// The bits of a coordinate. A point is one byte for its form, then one coordinate if it is
/// compressed (forms 2 and 3), or two.
fn ec_bits(point: &[u8]) -> usize {
    let coordinates = if matches!(point.first(), Some(2 | 3)) { 1 } else { 2 };
    point.len().saturating_sub(1) / coordinates * 8
}

/// The bits of the modulus, which is the first number of an RSA key.
fn rsa_bits(key: &[u8]) -> Option<usize> {
    let mut reader = SliceReader::new(key).ok()?;
    let modulus = reader.sequence(|it| {
        let modulus = UintRef::decode(it)?;
        UintRef::decode(it)?;
        Ok(modulus.as_bytes().len())
    });
    modulus.ok().map(|bytes| bytes * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_and_whole_points_of_a_curve_have_the_same_key_size() {
        assert_eq!((ec_bits(&[4; 65]), ec_bits(&[2; 33]), ec_bits(&[3; 33])), (256, 256, 256));
        assert_eq!((ec_bits(&[4; 97]), ec_bits(&[])), (384, 0));
    }
}
