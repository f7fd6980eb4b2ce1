//! The TLS handshake of a connection, within the time of a request head.

use std::{io, sync::Arc};

use steadfast_api::Code;
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

/// Begins TLS. Answers plain HTTP with an error, or redirects a browser that asks for one of our
/// own hosts, and returns `None`.
pub(super) async fn accept(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    timed: impl FnOnce(TcpStream) -> TimedStream,
    is_own_host: impl Fn(&str) -> bool,
) -> io::Result<Option<TlsStream<TimedStream>>> {
    let accepting = async {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Ok(None),
            _ if first == [HANDSHAKE] => {
                TlsAcceptor::from(tls).accept(timed(stream)).await.map(Some)
            }
            _ => refuse_plain(stream, is_own_host).await.map(|()| None),
        }
    };
    match tokio::time::timeout(HEADER_TIMEOUT, accepting).await {
        Ok(accepted) => accepted,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")),
    }
}

/// The body of the answer to plain HTTP.
pub(super) fn tls_needed(detail: &str) -> String {
    let problem = Problem::of(Code::TlsNeeded, detail);
    serde_json::to_string(&problem.body("", "")).unwrap_or_default()
}

/// Tells a client of plain HTTP what to do.
async fn refuse_plain(mut stream: TcpStream, is_own_host: impl Fn(&str) -> bool) -> io::Result<()> {
    // The head of a navigation arrives as a whole. Nobody waits for the rest of another one.
    let mut head = vec![0; PLAIN_HEAD_MAX];
    let length = stream.peek(&mut head).await?;
    head.truncate(length);
    let answer = match navigation(&head, is_own_host) {
        Some(url) => format!(
            "HTTP/1.1 308 Permanent Redirect\r\nlocation: {url}\r\ncontent-length: 0\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n"
        ),
        None => {
            let body = tls_needed("this port speaks TLS: write https:// in the URL");
            format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Bytes that were not read would reset the connection, and the client would see no answer.
    tokio::io::copy(&mut stream.take(PLAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
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
