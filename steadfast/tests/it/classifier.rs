//! A classifier on this machine that speaks as Workers AI does, and names the colour of an image.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    browser::Window,
    harness::{Answer, Server},
};

/// The classifier.
#[derive(Clone)]
pub(crate) struct Classifier {
    url: String,
    /// How often it was asked.
    pub(crate) asked: Arc<AtomicUsize>,
    /// It answers nothing but errors.
    pub(crate) is_down: Arc<AtomicBool>,
}

impl Classifier {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let classifier = Self { url, asked: Arc::default(), is_down: Arc::default() };
        let shared = classifier.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, stream) = (shared.clone(), stream.expect("a caller"));
                // Callers that disconnect are ignored.
                std::thread::spawn(move || shared.answer(stream).ok());
            }
        });
        classifier
    }

    /// A server that asks it.
    pub(crate) fn serve(&self, folder: TempDir) -> Server {
        Server::with(folder, &self.flags())
    }

    /// The flags of a server that asks it.
    pub(crate) fn flags(&self) -> [&str; 8] {
        let [kind, account] = ["--uploads-classifier", "--uploads-workers-ai-account"];
        let [token, url] = ["--uploads-workers-ai-token", "--uploads-workers-ai-url"];
        [kind, "workers-ai", account, "test", token, "secret", url, &self.url]
    }

    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            loop {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line == "\r\n" {
                    break;
                }
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().expect("a number");
                }
            }
            let mut image = vec![0; length];
            reader.read_exact(&mut image)?;
            self.asked.fetch_add(1, Ordering::SeqCst);
            let (status, body) = match self.is_down.load(Ordering::SeqCst) {
                true => ("503 Service Unavailable", json!({ "success": false })),
                false => ("200 OK", json!({ "success": true, "result": colours(&image) })),
            };
            let body = body.to_string();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}"
            );
            reader.get_mut().write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
        }
    }
}

/// The colours of the first pixel, as labels.
fn colours(bytes: &[u8]) -> serde_json::Value {
    let image = image::load_from_memory(bytes).expect("an image").to_rgb8();
    let pixel = image.get_pixel(0, 0).0;
    let mut all: Vec<(u8, &str)> = pixel.into_iter().zip(["RED", "GREEN", "BLUE"]).collect();
    all.sort_by(|a, b| b.cmp(a));
    let label =
        |(value, label): (u8, &str)| json!({ "label": label, "score": f64::from(value) / 255.0 });
    all.into_iter().map(label).collect()
}

/// A picture of one colour.
pub(crate) fn picture(colour: [u8; 3]) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(32, 24, image::Rgb(colour));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).expect("it is written");
    bytes.into_inner()
}

pub(crate) const RED: [u8; 3] = [250, 20, 10];
pub(crate) const BLUE: [u8; 3] = [10, 20, 250];

/// A form with a file.
pub(crate) fn form(file: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    let mut body = format!(
        "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{file}\"\r\n\
         content-type: image/png\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n--edge--\r\n");
    ("multipart/form-data; boundary=edge".into(), body)
}

pub(crate) fn upload(server: &Server, organization: &str, file: &str, bytes: &[u8]) -> Answer {
    upload_as(server, organization, file, bytes, None)
}

pub(crate) fn upload_as(
    server: &Server,
    organization: &str,
    file: &str,
    bytes: &[u8],
    token: Option<&str>,
) -> Answer {
    let (kind, body) = form(file, bytes);
    let bearer = token.map(|it| format!("Bearer {it}"));
    let mut headers = vec![("content-type", kind.as_str())];
    headers.extend(bearer.as_deref().map(|it| ("authorization", it)));
    server.post_bytes(&format!("/api/organizations/{organization}/uploads"), &body, &headers)
}

/// Drops a file onto the page of an organization.
pub(crate) fn drop_file(window: &Window<'_>, name: &str, bytes: &[u8]) {
    let bytes = json!(bytes).to_string();
    window.evaluate(&format!(
        "(() => {{ const all = new DataTransfer(); \
         all.items.add(new File([new Uint8Array({bytes})], '{name}', {{ type: 'image/png' }})); \
         document.querySelector('#drop').dispatchEvent( \
           new DragEvent('drop', {{ dataTransfer: all, bubbles: true, cancelable: true }})); \
         return true; }})()"
    ));
}
