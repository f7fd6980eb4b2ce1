use std::io::Write;

use flate2::{Compression, write::GzEncoder, write::ZlibEncoder};
use steadfast_drift::envelope::{ProbeErrorCode, ResponseMetadata};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::keeper::{Cage, cage, code, hurried, patient, probed, response, says};

const MIB: u64 = 1 << 20;

async fn read(cage: &Cage) -> ResponseMetadata {
    response(probed(cage, patient()).await).response
}

/// A server that sends the same megabyte for ever, and says when its visitor has left.
async fn endless(head: &'static str) -> (Cage, tokio::sync::mpsc::Receiver<u64>) {
    let (left, gone) = tokio::sync::mpsc::channel(1);
    let cage = cage(80, None, move |_, mut visitor| {
        let left = left.clone();
        async move {
            let block = vec![b'x'; 1 << 16];
            let mut sent = 0_u64;
            visitor.write_all(head.as_bytes()).await.unwrap();
            while visitor.write_all(&block).await.is_ok() {
                sent += block.len() as u64;
            }
            let _ = left.send(sent).await;
        }
    })
    .await;
    (cage, gone)
}

#[tokio::test]
async fn an_endless_body_is_read_to_the_limit_and_hung_up_on() {
    for (head, length) in [
        ("HTTP/1.1 200 OK\r\n\r\n", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", Some(1 << 30)),
    ] {
        let (cage, mut gone) = endless(head).await;
        let seen = read(&cage).await;
        assert_eq!(seen.hashed_bytes, Some(MIB));
        assert_eq!(seen.content_length, length);
        assert!(seen.body_hash.is_some() && seen.body_error.is_none());
        let sent = gone.recv().await.unwrap();
        assert!(sent < 100 * MIB, "{sent} bytes were sent before the visitor left");
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_gzip_bomb_unfolds_to_the_limit_only() {
    // A gigabyte of zeros in a megabyte: members follow each other.
    let member = gzip(&vec![0; 10 << 20]);
    let bomb = member.repeat(100);
    let seen = read(&says(encoded("gzip", &bomb)).await).await;
    assert_eq!(seen.hashed_bytes, Some(MIB));
    // The length of the header is of something else.
    assert_eq!(seen.content_length, None);
}

#[tokio::test]
async fn a_body_compares_by_its_content_however_it_is_sent() {
    let text = "drift ".repeat(1_000);
    let plain = says(format!("HTTP/1.1 200 OK\r\n\r\n{text}")).await;
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n0\r\nA: b\r\n\r\n",
        text.len()
    );
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(text.as_bytes()).unwrap();
    let deflated = encoded("deflate", &zlib.finish().unwrap());
    let expected = read(&plain).await;
    assert_eq!(expected.content_length, Some(6_000));
    for bytes in [chunked.into_bytes(), encoded("gzip", &gzip(text.as_bytes())), deflated] {
        let seen = read(&says(bytes).await).await;
        assert_eq!(seen.body_hash, expected.body_hash);
        assert_eq!((seen.content_length, seen.hashed_bytes), (Some(6_000), None));
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    for (len, is_whole) in [(MIB - 1, true), (MIB, true), (MIB + 1, false)] {
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + len as usize, b'x');
        let seen = read(&says(bytes).await).await;
        assert_eq!(seen.content_length, Some(len));
        assert_eq!(seen.hashed_bytes, (!is_whole).then_some(MIB), "{len}");
    }
}

#[tokio::test]
async fn broken_compression_and_broken_bodies_leave_the_response() {
    let good = gzip(b"hello");
    let mut flipped = good.clone();
    flipped[12] ^= 0xff;
    for bytes in [
        encoded("gzip", b"not gzip at all"),
        encoded("gzip", &good[..good.len() - 4]),
        encoded("gzip", &flipped),
        encoded("deflate", b"nor this"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
    ] {
        let seen = read(&says(bytes.clone()).await).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!((seen.status, &seen.body_hash), (200, &None), "{text}");
        assert_eq!(seen.body_error, Some(ProbeErrorCode::FetchError), "{text}");
    }
    let empty = read(&says(encoded("gzip", b"")).await).await;
    assert_eq!((empty.content_length, empty.body_error), (Some(0), None));
    // An encoding that was not requested is hashed as it arrives.
    let other = read(&says(encoded("br", b"hello")).await).await;
    assert_eq!(other.content_length, Some(5));
}

/// A server that says this much and then nothing, until its visitor leaves.
async fn stalls(bytes: &'static str) -> Cage {
    cage(80, None, move |_, mut visitor| async move {
        visitor.write_all(bytes.as_bytes()).await.unwrap();
        let _ = visitor.read_u8().await;
    })
    .await
}

#[tokio::test]
async fn a_body_that_stalls_leaves_the_response_and_a_head_that_stalls_is_a_timeout() {
    let cage = stalls("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel").await;
    let probe = response(probed(&cage, hurried()).await);
    assert_eq!(probe.response.body_error, Some(ProbeErrorCode::Timeout));
    assert!(probe.duration_ms >= 500 && probe.response.body_hash.is_none());
    for bytes in ["", "HTTP/1.1 200 OK\r\nX-Slow: "] {
        assert_eq!(code(probed(&stalls(bytes).await, hurried()).await), "timeout", "{bytes}");
    }
}

#[tokio::test]
async fn a_drip_ends_with_the_budget() {
    let (cage, mut gone) = {
        let (left, gone) = tokio::sync::mpsc::channel(1);
        let cage = cage(80, None, move |_, mut visitor| {
            let left = left.clone();
            async move {
                let _ = visitor.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let mut tick = tokio::time::interval(std::time::Duration::from_millis(20));
                loop {
                    tick.tick().await;
                    if visitor.write_all(b".").await.is_err() {
                        break;
                    }
                }
                let _ = left.send(()).await;
            }
        })
        .await;
        (cage, gone)
    };
    let probe = response(probed(&cage, hurried()).await);
    assert_eq!(probe.response.body_error, Some(ProbeErrorCode::Timeout));
    assert_eq!(gone.recv().await, Some(()));
}
