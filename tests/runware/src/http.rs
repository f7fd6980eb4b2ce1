//! As much HTTP as is needed: one request for each connection.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
};

/// A request as it came.
pub(super) struct Request {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) body: Vec<u8>,
}

pub(super) fn read(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { path, authorization, body })
}

/// Answers with a status, further headers, and a body.
pub(super) fn answer(
    mut stream: &TcpStream,
    status: u16,
    headers: &str,
    body: &[u8],
) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()
}

/// Waits until the client has had enough.
pub(super) fn wait_for_the_end(mut stream: &TcpStream) {
    let mut byte = [0; 64];
    while matches!(stream.read(&mut byte), Ok(1..)) {}
}
