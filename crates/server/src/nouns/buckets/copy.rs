//! `steadfast buckets cp`: copies a file in or out in pieces, with a progress bar on a terminal.

use std::{
    fs::{File, OpenOptions},
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use steadfast_api::buckets::{Blob, BlobPath};

use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        output::{bar, print, print_json, try_print},
    },
    failure::Failure,
};

#[derive(Args)]
pub(crate) struct CpArgs {
    /// Source: a file, or BUCKET/KEY. Text without a slash, or that begins with /, ./ or ../, is a
    /// file. If both arguments are ambiguous, FROM is the file if it exists
    from: String,
    /// Target: a file, or BUCKET/KEY; after a slash at the end, the name of the file is added
    to: String,
    /// Media type of the blob; by default from the file name
    #[arg(long, env = "STEADFAST_CONTENT_TYPE", value_name = "TYPE")]
    content_type: Option<String>,
}

/// Copies a file in or out.
pub(crate) fn cp(client: &Client, args: CpArgs, ask: &AskArgs) -> Result<(), Failure> {
    match Direction::of(&args.from, &args.to, |it| Path::new(it).is_file())? {
        Direction::In(file, blob) => {
            let kind = args.content_type.as_deref().or_else(|| type_of(&file));
            copy_in(client, &file, (&blob, kind), ask.json)
        }
        Direction::Out(blob, file) => copy_out(client, &blob, &file, ask.json),
    }
}

fn copy_in(
    client: &Client,
    file: &Path,
    (to, kind): (&BlobPath, Option<&str>),
    json: bool,
) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("{} cannot be read: {error}", file.display()));
    let opened = File::open(file).map_err(failed)?;
    let about = opened.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Failure::new(format!("{} is not a file", file.display())));
    }
    // Bytes that are appended meanwhile are not copied.
    let length = about.len();
    let metered = Metered { file: opened.take(length), meter: Meter::new(length, !json) };
    let answer = client.upload(&to.path(), kind, (metered, length), json);
    Meter::new(length, !json).end()?;
    let answer = answer?;
    if json {
        return print_json(&answer);
    }
    let blob: Blob = client.read(&answer)?;
    let (size, sequence) = (megabytes(blob.size), blob.sequence);
    print(&format!("copied {size} to {}/{}; sequence {sequence}\n", to.bucket, blob.key))
}

/// Writes a temporary file and renames it at the end: a failed copy keeps the old file.
fn copy_out(client: &Client, from: &BlobPath, file: &Path, json: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("{} cannot be written: {error}", file.display()))
    };
    let part = TempFile::new(file).map_err(failed)?;
    let mut target = &part.file;
    let mut meter = Meter::new(0, !json);
    let fetched = client.fetch(&from.path(), json, &mut |piece, length| {
        target.write_all(piece).map_err(failed)?;
        meter.add(piece.len(), length.unwrap_or(0));
        Ok(())
    });
    meter.end()?;
    fetched?;
    part.keep(file).map_err(failed)?;
    let size = meter.done();
    if json {
        let report = json!({ "key": from.key, "size": size, "file": file.display().to_string() });
        return print_json(&report.to_string());
    }
    print(&format!("copied {} to {}\n", megabytes(size), file.display()))
}

/// A temporary file. Dropping it removes it.
struct TempFile {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl TempFile {
    fn new(file: &Path) -> std::io::Result<Self> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = file.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path, is_kept: false })
    }

    fn keep(mut self, file: &Path) -> std::io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, file)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The media type by file name, so that a browser can show the file.
fn type_of(file: &Path) -> Option<&'static str> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    Some(match ending.as_str() {
        "txt" | "log" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        _ => return None,
    })
}

fn blob(text: &str) -> Result<BlobPath, Failure> {
    text.parse().map_err(|error: String| Failure::new(error))
}

/// Parses `BUCKET/KEY`; after a slash at the end, the file name is added.
fn blob_for(text: &str, file: &Path) -> Result<BlobPath, Failure> {
    if !text.ends_with('/') {
        return blob(text);
    }
    let name = file.file_name().and_then(|it| it.to_str()).ok_or_else(|| {
        Failure::new(format!("{} has no name for a key; write BUCKET/KEY", file.display()))
    })?;
    blob(&format!("{text}{name}"))
}

/// The direction of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into a bucket.
    In(PathBuf, BlobPath),
    /// Out of a bucket.
    Out(BlobPath, PathBuf),
}

impl Direction {
    /// Decides which argument is the file. If both could be, it is the first if it exists.
    pub(crate) fn of(
        from: &str,
        to: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        match (is_path(from), is_path(to)) {
            (true, true) => Err(Failure::new(format!(
                "`{from}` and `{to}` are both files; write BUCKET/KEY for one of them"
            ))),
            (true, false) => Ok(Direction::In(from.into(), blob_for(to, from.as_ref())?)),
            (false, false) if is_there(from) => {
                Ok(Direction::In(from.into(), blob_for(to, from.as_ref())?))
            }
            (false, true | false) => Self::out(from, to),
        }
    }

    fn out(from: &str, to: &str) -> Result<Self, Failure> {
        let (blob_path, file) = (blob(from)?, PathBuf::from(to));
        if !to.ends_with('/') && !file.is_dir() {
            return Ok(Direction::Out(blob_path, file));
        }
        // Only the last segment: a key must not leave the folder.
        let name = blob_path.key.rsplit('/').next().unwrap_or_default();
        if ["", ".", ".."].contains(&name) || name.contains('\0') {
            let text = format!("key `{}` does not end with a name; name the file", blob_path.key);
            return Err(Failure::new(text));
        }
        let file = file.join(name);
        Ok(Direction::Out(blob_path, file))
    }
}

/// Whether the text can only be a file.
fn is_path(text: &str) -> bool {
    !text.contains('/') || ["/", "./", "../"].iter().any(|it| text.starts_with(it))
}

/// Counts and shows copied bytes.
#[derive(Debug)]
pub(crate) struct Meter {
    done: u64,
    total: u64,
    /// The per mille shown last; `None` without a terminal.
    shown: Option<u64>,
}

impl Meter {
    /// Shows the bar only on a terminal, and only if `wanted`.
    pub(crate) fn new(total: u64, wanted: bool) -> Self {
        let shown = (wanted && std::io::stdout().is_terminal()).then_some(u64::MAX);
        Self { done: 0, total, shown }
    }

    /// Adds copied bytes.
    pub(crate) fn add(&mut self, bytes: usize, total: u64) {
        (self.done, self.total) = (self.done + bytes as u64, total);
        let now = (self.done * 1_000).checked_div(self.total).unwrap_or(1_000);
        if self.shown.is_some_and(|it| it != now) {
            self.shown = Some(now);
            // Ignore output errors: the copy reports its own.
            let _ = try_print(&format!("\r{}", line(self.done, self.total)));
        }
    }

    /// Bytes so far.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Clears the line.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        if self.shown.is_some() { try_print("\r\x1b[K").map(|_| ()) } else { Ok(()) }
    }
}

/// One line of progress.
fn line(done: u64, total: u64) -> String {
    format!("{} {} of {}", bar(done, total), megabytes(done), megabytes(total))
}

/// Formats a size for people.
pub(crate) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1_000_000.0),
    }
}

/// A reader that counts its bytes.
pub(crate) struct Metered<R> {
    pub(crate) file: R,
    pub(crate) meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(piece)?;
        self.meter.add(count, self.meter.total);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob_path(bucket: &str, key: &str) -> BlobPath {
        BlobPath { bucket: bucket.into(), key: key.into() }
    }

    #[test]
    fn a_file_is_distinguished_from_a_key() {
        let direction =
            |from: &str, to: &str| Direction::of(from, to, |it| it == "pets/dog.png").ok();
        let into =
            |file: &str, key: &str| Some(Direction::In(file.into(), blob_path("photos", key)));
        let out =
            |key: &str, file: &str| Some(Direction::Out(blob_path("photos", key), file.into()));
        assert_eq!(direction("cat.png", "photos/2026/c.png"), into("cat.png", "2026/c.png"));
        assert_eq!(direction("/tmp/cat.png", "photos/"), into("/tmp/cat.png", "cat.png"));
        assert_eq!(direction("pets/dog.png", "photos/a/"), into("pets/dog.png", "a/dog.png"));
        assert_eq!(direction("photos/a.png", "a.png"), out("a.png", "a.png"));
        assert_eq!(direction("photos/a/b.png", "none/x.png"), out("a/b.png", "none/x.png"));
        assert_eq!(direction("photos//a", "./x/"), out("/a", "./x/a"));
        for (from, to) in [
            ("a.png", "b.png"),
            ("cat.png", "/etc/x"),
            ("photos/..", "./"),
            ("photos/a/", "./"),
            ("photos/a\0b", "./x/"),
            ("/", "photos/"),
        ] {
            assert_eq!(direction(from, to), None, "{from} {to}");
        }
    }

    #[test]
    fn a_progress_line_fills_and_keeps_its_width() {
        assert_eq!(line(0, 8), format!("|{}| 0 bytes of 8 bytes", ".".repeat(40)));
        let half = format!("|{}{}| 1.0 MB of 2.0 MB", "=".repeat(20), ".".repeat(20));
        assert_eq!(line(1_000_000, 2_000_000), half);
        assert_eq!(line(9, 8), format!("|{}| 9 bytes of 8 bytes", "=".repeat(40)));
        assert_eq!(line(0, 0), format!("|{}| 0 bytes of 0 bytes", "=".repeat(40)));
    }

    #[test]
    fn read_bytes_are_counted() {
        let mut file = Metered { file: &b"12345"[..], meter: Meter::new(5, true) };
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!((all.len(), file.meter.done()), (5, 5));
    }
}
