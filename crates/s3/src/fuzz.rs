//! Fuzz targets: signatures, chunked bodies, XML bodies and continuation tokens.

use std::{io, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Method, Request, Uri, header, request::Parts};
use s3s::{
    Body,
    dto::{CompletedMultipartUpload, CreateBucketConfiguration, Delete, StreamingBlob},
    xml::{Deserialize, Deserializer, Serialize, Serializer},
};
use steadfast_bucket::{AccessKey, BlobKey, BucketName, KeyScope};
use steadfast_store::Timestamp;

use crate::{
    PRESIGN_MAX, PresignMethod,
    chunks::{Chunks, SIGNED_BYTES_MAX, checked},
    guard::{self, Claims, Signature},
    list::{decode_token, token},
    presign,
};

/// The head of a request: a line with method and target, then a line for each header.
pub fn signature(data: &[u8]) {
    let Some(parts) = head(data) else { return };
    if guard::check(&mut parts.clone()).is_err() {
        return;
    }
    match Signature::of(&parts) {
        Signature::Missing => {}
        Signature::Unsupported | Signature::Duplicate => panic!("an unsafe signature passes"),
        Signature::Header(claims) => {
            assert_covered(&parts, &claims, false);
            if let Some(strict) = authorization(&parts) {
                assert_eq!(claims, strict, "the library reads other claims");
            }
        }
        Signature::Query { claims, expires } => {
            assert!(expires.is_some_and(|it| (1..=PRESIGN_MAX.as_secs()).contains(&it)));
            assert_covered(&parts, &claims, true);
        }
    }
}

fn head(data: &[u8]) -> Option<Parts> {
    let mut lines = data.split(|it| *it == b'\n').map(<[u8]>::trim_ascii);
    let (method, target) = halves(lines.next()?, b' ')?;
    let mut request = Request::builder()
        .method(Method::from_bytes(method).ok()?)
        .uri(Uri::try_from(target).ok()?);
    for line in lines.filter(|it| !it.is_empty()) {
        let (name, value) = halves(line, b':')?;
        request = request.header(name, value.trim_ascii());
    }
    request.body(()).ok().map(|it| it.into_parts().0)
}

fn halves(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|it| *it == at)?;
    Some((&text[..at], &text[at + 1..]))
}

/// The library finds signed headers by their exact names.
fn assert_covered(parts: &Parts, claims: &Claims<'_>, in_query: bool) {
    let is_signed = |name: &str| claims.headers.split(';').any(|it| it == name);
    assert!(is_signed("host"));
    for name in parts.headers.keys().map(|it| it.as_str()) {
        let may_change = in_query && name == "x-amz-content-sha256";
        assert!(!name.starts_with("x-amz-") || may_change || is_signed(name), "{name}");
    }
}

/// The claims of an Authorization header that has the one order that the library reads.
fn authorization(parts: &Parts) -> Option<Claims<'_>> {
    let text = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let rest = text.strip_prefix("AWS4-HMAC-SHA256 ")?.trim_start().strip_prefix("Credential=")?;
    let (credential, rest) = rest.split_once(',')?;
    let (headers, rest) = rest.trim_start().strip_prefix("SignedHeaders=")?.split_once(',')?;
    let signature = rest.trim_start().strip_prefix("Signature=")?.trim_end();
    let is_signature = signature.len() == 64 && signature.bytes().all(|it| it.is_ascii_hexdigit());
    let claims = Claims { credential: credential.into(), headers: headers.into() };
    is_signature.then_some(claims)
}

/// The key of a blob. Its presigned URL passes, and says what was signed.
pub fn presigned(data: &[u8]) {
    let (Ok(key), Ok(bucket)) =
        (BlobKey::new(&String::from_utf8_lossy(data)), BucketName::new("bucket"))
    else {
        return;
    };
    let access = AccessKey {
        id: "SF0123".into(),
        secret: "secret".into(),
        scope: KeyScope::default(),
        created_at: Timestamp(0),
    };
    let seconds = 1 + data.len() as u64;
    let at = Timestamp(1_700_000_000_000);
    let url = presign(
        "http://127.0.0.1:8788/",
        &access,
        PresignMethod::Get,
        (&bucket, &key),
        Duration::from_secs(seconds),
        at,
    )
    .expect("the lifetime is allowed");
    let mut parts = Request::get(&url).body(()).expect("a request").into_parts().0;
    let Signature::Query { claims, expires } = Signature::of(&parts) else {
        panic!("{url} is not signed");
    };
    assert_eq!(expires, Some(seconds));
    assert_eq!(claims.credential, "SF0123/20231114/us-east-1/s3/aws4_request");
    let path = percent_encoding::percent_decode_str(parts.uri.path()).decode_utf8();
    assert_eq!(path.as_deref(), Ok(&*format!("/bucket/{key}")));
    assert_eq!(guard::check(&mut parts).ok(), Some(Chunks::None));
}

/// A body in chunks. The first byte is the size of the pieces in which it arrives.
pub fn chunks(data: &[u8]) {
    let Some((piece, body)) = data.split_first() else { return };
    let piece = usize::from(*piece).max(1);
    let signed = passed(body, piece, Chunks::Signed);
    if let Some(passed) = &signed {
        assert!(passed.concat() == body, "a signed body was changed");
        let (chunks, _) = taken_apart(body).expect("the body is complete");
        let fits = |it: &Chunk<'_>| it.0 <= 8 && it.1.len() as u64 <= SIGNED_BYTES_MAX;
        assert!(chunks.iter().all(fits), "the library reads another size");
    }
    let unsigned = passed(body, piece, Chunks::Unsigned);
    assert!(signed.is_none() || unsigned.is_some(), "only the signed body is complete");
    let whole = passed(body, body.len().max(1), Chunks::Unsigned);
    assert_eq!(unsigned.is_some(), whole.is_some(), "the size of the pieces matters");
    let Some(pieces) = unsigned else { return };
    assert!(pieces.iter().all(|it| it.len() <= piece.max(8)), "a piece grew");
    let (chunks, trailers) = taken_apart(body).expect("the body is complete");
    let passed = pieces.concat();
    let (passed, passed_trailers) = taken_apart(&passed).expect("the passed body is complete");
    let bytes =
        |chunks: Vec<Chunk<'_>>| chunks.iter().flat_map(|it| it.1.to_vec()).collect::<Vec<u8>>();
    assert!(bytes(chunks) == bytes(passed), "the contents were changed");
    assert_eq!(trailers, passed_trailers);
}

/// The pieces that the library gets; `None` if the body is refused.
fn passed(body: &[u8], piece: usize, chunks: Chunks) -> Option<Vec<Bytes>> {
    let pieces: Vec<_> =
        body.chunks(piece).map(|it| Ok::<_, io::Error>(Bytes::copy_from_slice(it))).collect();
    let body = Body::from(StreamingBlob::wrap(stream::iter(pieces)));
    let passed = StreamingBlob::from(checked(body, chunks)).collect::<Vec<_>>().now_or_never();
    passed.expect("every piece is there").into_iter().collect::<Result<_, _>>().ok()
}

/// A chunk: the number of digits of its size, and its bytes.
type Chunk<'a> = (usize, &'a [u8]);

/// The chunks of a body, and its trailers.
fn taken_apart(mut body: &[u8]) -> Option<(Vec<Chunk<'_>>, &[u8])> {
    let mut chunks = Vec::new();
    loop {
        let (line, rest) = halves(body, b'\n')?;
        let digits = line.split(|it| b";\r".contains(it)).next()?;
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            return Some((chunks, rest));
        }
        let (chunk, rest) = rest.split_at_checked(size)?;
        chunks.push((digits.len(), chunk));
        body = rest.strip_prefix(b"\r\n")?;
    }
}

/// An XML body of a request.
pub fn xml(data: &[u8]) {
    if let Some(delete) = read::<Delete>(data) {
        let keys: usize = delete.objects.iter().map(|it| it.key.len()).sum();
        assert!(keys <= data.len(), "keys are larger than the body");
        let mut xml = Vec::new();
        delete.serialize(&mut Serializer::new(&mut xml)).expect("a vector takes all");
        assert!(read::<Delete>(&xml) == Some(delete), "{}", xml.escape_ascii());
    }
    // The library does not write an entity tag as it read it, so this is not written again.
    if let Some(upload) = read::<CompletedMultipartUpload>(data) {
        assert!(upload.parts.iter().flatten().count() < data.len().max(1));
    }
    let _ = read::<CreateBucketConfiguration>(data);
}

fn read<T: for<'xml> Deserialize<'xml>>(data: &[u8]) -> Option<T> {
    let mut reader = Deserializer::new(data);
    let found = T::deserialize(&mut reader).ok()?;
    reader.expect_eof().ok().map(|()| found)
}

/// A continuation token.
pub fn continuation(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert_eq!(decode_token(&token(&text)).ok().as_deref(), Some(&*text));
    if let Ok(after) = decode_token(&text) {
        assert_eq!(token(&after), text);
    }
}

#[cfg(test)]
mod tests {
    use steadfast_mutations::run;

    #[test]
    fn signatures_cover_what_they_must() {
        run("signature", super::signature, 3_000);
    }

    #[test]
    fn presigned_urls_say_what_was_signed() {
        run("presigned", super::presigned, 1_000);
    }

    #[test]
    fn chunks_are_split_without_a_change() {
        run("chunks", super::chunks, 3_000);
    }

    #[test]
    fn xml_bodies_are_read_as_they_are_written() {
        run("xml", super::xml, 3_000);
    }

    #[test]
    fn continuation_tokens_have_one_text() {
        run("continuation", super::continuation, 2_000);
    }
}
