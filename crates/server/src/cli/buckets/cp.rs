//! `steadfast buckets cp`: copies a file in or out in pieces.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use steadfast_api::buckets::{Blob, BlobPath};

use super::{
    direction::Direction,
    meter::{Meter, Metered, megabytes},
};
use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        output::{print, print_json},
    },
    failure::Failure,
};

#[derive(Args)]
pub(super) struct CpArgs {
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
pub(super) fn cp(client: &Client, args: CpArgs, ask: &AskArgs) -> Result<(), Failure> {
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
