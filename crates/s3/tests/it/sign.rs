//! Signs requests in the Authorization header, as a client does.

use std::fmt::Write;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use steadfast_bucket::AccessKey;
use steadfast_store::{Clock, SystemClock};

const SCOPE: &str = "us-east-1/s3/aws4_request";

/// The state for signing the chunks of a body.
pub(crate) struct Seal {
    secret: Vec<u8>,
    scope: String,
    time: String,
    /// The previous signature.
    pub(crate) before: String,
}

/// The headers of a request, including its signature.
pub(crate) fn sign(
    key: &AccessKey,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    payload: &str,
) -> (Vec<(String, String)>, Seal) {
    sign_in(SCOPE, true, key, method, target, headers, payload)
}

/// The same for another scope, or with the time in `Date`.
pub(crate) fn sign_in(
    scope: &str,
    with_amz_date: bool,
    key: &AccessKey,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    payload: &str,
) -> (Vec<(String, String)>, Seal) {
    // The library reads the system clock.
    let now = SystemClock.now();
    let date = now.http_date().unwrap();
    let time: String = now.rfc3339().split('.').next().unwrap().replace(['-', ':'], "") + "Z";
    let day = time[..8].to_owned();
    let when = if with_amz_date { ("x-amz-date", time.as_str()) } else { ("date", &*date) };
    let own = [("host", "localhost"), ("x-amz-content-sha256", payload), when];
    let mut all: Vec<(String, String)> =
        own.iter().chain(headers).map(|(name, value)| ((*name).into(), (*value).into())).collect();
    all.sort();
    let names: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
    let names = names.join(";");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut query: Vec<String> = query
        .split('&')
        .filter(|it| !it.is_empty())
        .map(|it| if it.contains('=') { it.into() } else { format!("{it}=") })
        .collect();
    query.sort();
    let mut lines = format!("{method}\n{path}\n{}\n", query.join("&"));
    for (name, value) in &all {
        writeln!(lines, "{name}:{value}").unwrap();
    }
    write!(lines, "\n{names}\n{payload}").unwrap();
    let steps = scope;
    let scope = format!("{day}/{steps}");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(lines.as_bytes()));
    let mut secret = format!("AWS4{}", key.secret.expose()).into_bytes();
    for step in [day.as_str()].into_iter().chain(steps.split('/')) {
        secret = mac(&secret, step);
    }
    let signature = HEXLOWER.encode(&mac(&secret, &text));
    let credential = format!("{}/{scope}", key.id);
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    );
    all.push(("authorization".into(), value));
    (all, Seal { secret, scope, time, before: signature })
}

impl Seal {
    /// A chunk with its signature.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> Vec<u8> {
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{}\n{}",
            self.time,
            self.scope,
            self.before,
            hash(b""),
            hash(bytes)
        );
        self.before = HEXLOWER.encode(&mac(&self.secret, &text));
        let mut chunk =
            format!("{:x};chunk-signature={}\r\n", bytes.len(), self.before).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        chunk
    }
}

fn mac(secret: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
