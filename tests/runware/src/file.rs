//! Serving outputs.

use std::{
    io::{self, Cursor, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use steadfast_fake_http as http;

use super::Shared;

impl Shared {
    pub(super) fn serve_file(&self, stream: &TcpStream, name: &str) -> io::Result<()> {
        let (name, query) = name.split_once('?').unwrap_or((name, ""));
        let (task, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let Some(behaviour) = self.tasks().get(task).map(|it| it.behaviour.clone()) else {
            return http::answer(stream, 404, "", b"");
        };
        let file = if extension == "mp4" { mp4() } else { png(task) };
        let here = format!("http://{}/file/{name}?", self.address);
        let port = self.address.port();
        let target = if behaviour.has("redirect-loop") {
            Some(format!("{here}{query}x"))
        } else if behaviour.has("redirect-once") && query.is_empty() {
            Some(format!("/file/{name}?again"))
        } else if behaviour.has("redirect-private") {
            // This server, by an address that nobody allowed.
            Some(format!("http://127.0.0.2:{port}/file/{name}?"))
        } else if behaviour.has("redirect-metadata") {
            Some("http://169.254.169.254/latest/meta-data/".into())
        } else if behaviour.has("redirect-scheme") {
            Some(format!("ftp://127.0.0.1:{port}/file/{name}"))
        } else {
            None
        };
        if let Some(target) = target {
            return http::answer(stream, 302, &format!("location: {target}\r\n"), b"");
        }
        if behaviour.has("gone") {
            http::answer(stream, 404, "", b"gone")
        } else if behaviour.has("wrong-content") {
            let html = b"<!doctype html><script>alert(1)</script>";
            http::answer(stream, 200, "content-type: image/png\r\n", html)
        } else if behaviour.has("huge-length") {
            head(stream, Some(1 << 40))
        } else if behaviour.has("huge") {
            head(stream, None)?;
            send(stream, &file)?;
            // Until the client has had enough, and a gigabyte at most.
            (0..16_384).try_for_each(|_| send(stream, &[7; 64 << 10]))
        } else if behaviour.has("cut") {
            head(stream, Some(file.len()))?;
            send(stream, &file[..file.len() / 2])
        } else if behaviour.has("stall") {
            head(stream, Some(file.len()))?;
            send(stream, &file[..file.len() / 2])?;
            http::wait_for_the_end(stream);
            Ok(())
        } else if behaviour.has("slow") {
            head(stream, Some(file.len()))?;
            for drop in file.chunks(file.len().div_ceil(20)) {
                send(stream, drop)?;
                thread::park_timeout(Duration::from_millis(10));
            }
            Ok(())
        } else {
            http::answer(stream, 200, "content-type: application/octet-stream\r\n", &file)
        }
    }
}

fn head(mut stream: &TcpStream, length: Option<usize>) -> io::Result<()> {
    let length = length.map_or_else(String::new, |it| format!("content-length: {it}\r\n"));
    write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{length}\r\n")
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

/// A picture of its own for each task.
fn png(task: &str) -> Vec<u8> {
    let letters = task.as_bytes();
    let letter = |index: u32| letters.get(index as usize % letters.len().max(1)).copied();
    let pixel = |column: u32, row: u32| {
        let byte = |index: u32| letter(index).unwrap_or_default().wrapping_mul(7);
        image::Rgb([byte(column), byte(row), byte(column + row)])
    };
    let (mut bytes, picture) = (Cursor::new(Vec::new()), image::RgbImage::from_fn(64, 64, pixel));
    // A picture that cannot be written is an empty file, and the test that fetches it fails.
    let _ = picture.write_to(&mut bytes, image::ImageFormat::Png);
    bytes.into_inner()
}

/// The boxes of a clip of 640 by 360 pixels, which does not play. Its tracks come last.
fn mp4() -> Vec<u8> {
    let mut bytes = b"\0\0\0\x18ftypisom\0\0\x02\0isommp42\0\0\x40\x08mdat".to_vec();
    bytes.resize(24 + 0x4008, 0x5a);
    bytes.extend_from_slice(b"\0\0\0\x64moov\0\0\0\x5ctkhd");
    bytes.resize(bytes.len() + 76, 0);
    bytes.extend_from_slice(&(640_u32 << 16).to_be_bytes());
    bytes.extend_from_slice(&(360_u32 << 16).to_be_bytes());
    bytes
}
