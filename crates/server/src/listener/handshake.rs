//! The TLS handshake of a connection, within the time of a request head.

use std::{io, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_s3::S3Api;
use steadfast_web::Problem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

use super::{HEADER_TIMEOUT, timeouts::TimedStream};

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 22;

/// Maximum bytes of the head of a plain request that is redirected.
const PLAIN_HEAD_MAX: usize = 8 << 10;

/// Maximum bytes of a plain request that are read before its connection is closed.
const PLAIN_BYTES_MAX: u64 = 64 << 10;

/// The format of the errors of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorFormat {
    /// JSON of RFC 9457.
    Problem,
    /// XML of S3.
    S3,
}

/// Begins TLS. Answers plain HTTP with an error, or redirects a browser that asks for one of our
/// own hosts, and returns `None`.
pub(super) async fn accept(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    timed: impl FnOnce(TcpStream) -> TimedStream,
    is_own_host: impl Fn(&str) -> bool,
    errors: ErrorFormat,
) -> io::Result<Option<TlsStream<TimedStream>>> {
    let accepting = async {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Ok(None),
            _ if first == [HANDSHAKE] => {
                TlsAcceptor::from(tls).accept(timed(stream)).await.map(Some)
            }
            _ => refuse_plain(stream, is_own_host, errors).await.map(|()| None),
        }
    };
    match tokio::time::timeout(HEADER_TIMEOUT, accepting).await {
        Ok(accepted) => accepted,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")),
    }
}

/// The answer to plain HTTP. It ends the connection.
pub(super) async fn tls_needed(errors: ErrorFormat, detail: &'static str) -> Response {
    match errors {
        ErrorFormat::Problem => {
            let mut response = Problem::of(Code::TlsNeeded, detail).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        ErrorFormat::S3 => S3Api::refuse_plain_http(detail).await.map(Body::new),
    }
}

/// Tells a client of plain HTTP what to do.
async fn refuse_plain(
    mut stream: TcpStream,
    is_own_host: impl Fn(&str) -> bool,
    errors: ErrorFormat,
) -> io::Result<()> {
    // The head of a navigation arrives as a whole. Nobody waits for the rest of another one.
    let mut head = vec![0; PLAIN_HEAD_MAX];
    let length = stream.peek(&mut head).await?;
    head.truncate(length);
    let answer = match navigation(&head, is_own_host) {
        Some(url) => format!(
            "HTTP/1.1 308 Permanent Redirect\r\nlocation: {url}\r\ncontent-length: 0\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n"
        )
        .into_bytes(),
        None => {
            let detail = "this port speaks TLS: write https:// in the URL";
            bytes_of(tls_needed(errors, detail).await).await?
        }
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    // Bytes that were not read would reset the connection, and the client would see no answer.
    tokio::io::copy(&mut stream.take(PLAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
}

/// A response as it is sent.
async fn bytes_of(response: Response) -> io::Result<Vec<u8>> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, PLAIN_HEAD_MAX).await.map_err(io::Error::other)?;
    let mut bytes =
        format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n", parts.status, body.len()).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    Ok(bytes)
}

/// The URL over TLS of a navigation of a browser. A request with a token or a signature is none:
/// its sender must learn that it was sent in the clear.
fn navigation(head: &[u8], is_own_host: impl Fn(&str) -> bool) -> Option<String> {
    let (head, _) = std::str::from_utf8(head).ok()?.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let target = lines.next()?.strip_suffix(" HTTP/1.1")?;
    let path = target.strip_prefix("GET ").or_else(|| target.strip_prefix("HEAD "))?;
    // It becomes a header.
    let is_path = path.starts_with('/') && path.bytes().all(|it| it.is_ascii_graphic());
    let (mut host, mut is_page) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "authorization" => return None,
            "host" if host.replace(value.trim()).is_some() => return None,
            "accept" => is_page |= value.contains("text/html"),
            _ => {}
        }
    }
    let is_signed = path.to_ascii_lowercase().contains("x-amz-");
    let host = host.filter(|it| is_path && is_page && !is_signed && is_own_host(it))?;
    Some(format!("https://{host}{path}"))
}
