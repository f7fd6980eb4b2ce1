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

/// Maximum bytes of a plain request that are read before its connection is closed.
const PLAIN_BYTES_MAX: u64 = 64 << 10;

/// Begins TLS. Answers plain HTTP with an error and returns `None`.
pub(super) async fn accept(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    timed: impl FnOnce(TcpStream) -> TimedStream,
) -> io::Result<Option<TlsStream<TimedStream>>> {
    let accepting = async {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Ok(None),
            _ if first == [HANDSHAKE] => {
                TlsAcceptor::from(tls).accept(timed(stream)).await.map(Some)
            }
            _ => refuse_plain(stream).await.map(|()| None),
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
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    let body = tls_needed("this port speaks TLS: write https:// in the URL");
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await?;
    // Bytes that were not read would reset the connection, and the client would see no answer.
    tokio::io::copy(&mut stream.take(PLAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
}
