//! An HTTP service for tests, with as much HTTP as they need: one request for each connection.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its first line and its headers.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads a request.
    pub fn read(stream: &TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                break;
            }
        }
        let mut request = Self { head, body: Vec::new() };
        let length = request.header("content-length").and_then(|it| it.parse().ok());
        request.body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut request.body)?;
        Ok(request)
    }

    /// Its path.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("/")
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|it| it.split_once(':'));
        headers.find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.trim())
    }
}

/// Answers with a status, further headers, and a body.
pub fn answer(mut stream: &TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()
}

/// Waits until the client closes the connection.
pub fn wait_for_the_end(mut stream: &TcpStream) {
    let mut byte = [0; 64];
    while matches!(stream.read(&mut byte), Ok(1..)) {}
}

/// The bytes of a response, for [`serve`].
pub fn response(status: &str, body: &str) -> Option<String> {
    let len = body.len();
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}"))
}

/// Starts a service that answers each request with these bytes. With `None` it says nothing until
/// the client closes the connection.
pub fn serve(
    answer: impl Fn(&Request) -> Option<String> + Send + 'static,
) -> io::Result<(SocketAddr, Receiver<Request>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (sender, seen) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Ok(request) = Request::read(&stream) else { continue };
            let answer = answer(&request);
            // The test may have ended.
            let _ = sender.send(request);
            match answer {
                // The client may have closed the connection.
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => wait_for_the_end(&stream),
            }
        }
    });
    Ok((address, seen))
}
