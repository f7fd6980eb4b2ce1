//! Fetching an output from an address that a provider named.

use std::{io::Read, sync::Arc, time::Duration};

use steadfast_egress::{DownloadLimits, Network, Policy, download_agent, refused};
use tokio::sync::{Semaphore, mpsc, oneshot};
use ureq::{Agent, http::Uri};

use super::{
    error::{ErrorKind, GenerateError, shorten},
    stream::{CHUNK_BYTES, CHUNKS_WAITING, Chunk, OutputStream},
};

/// Where outputs may be fetched from, and how long that may take.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Hosts, with all below them; any host if there are none.
    pub hosts: Vec<String>,
    /// Networks that may be asked although they are not public, at any port. For tests, and for
    /// gateways beside this machine.
    pub private: Vec<Network>,
    /// How many redirects are followed.
    pub redirects_max: u32,
    /// How long nothing may come.
    pub idle: Duration,
    /// How long all of it may take.
    pub timeout: Duration,
    /// How many are fetched at a time; the others wait.
    pub concurrent: usize,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            private: Vec::new(),
            redirects_max: 3,
            idle: Duration::from_secs(30),
            timeout: Duration::from_secs(10 * 60),
            concurrent: 8,
        }
    }
}

/// Fetches. Clones share their places.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    agent: Agent,
    places: Arc<Semaphore>,
}

impl Fetcher {
    pub(crate) fn new(options: &FetchOptions) -> Self {
        let FetchOptions { redirects_max, idle, timeout, .. } = *options;
        let policy = Policy::public_only().only_hosts(&options.hosts).web_ports_only();
        let policy = options.private.iter().fold(policy, |it, network| it.allow_network(*network));
        let agent = download_agent(policy, DownloadLimits { redirects_max, idle, timeout });
        Self { agent, places: Arc::new(Semaphore::new(options.concurrent.max(1))) }
    }

    /// Opens what is at an address.
    pub(crate) async fn open(
        &self,
        url: &str,
        bytes_max: u64,
    ) -> Result<OutputStream, GenerateError> {
        let uri = parse(url)?;
        // Nobody closes the places.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| not_fetched("nothing is fetched any more"))?;
        let (head, answered) = oneshot::channel();
        let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
        let agent = self.agent.clone();
        tokio::task::spawn_blocking(move || {
            let _place = place;
            match begin(&agent, uri, bytes_max) {
                Err(error) => drop(head.send(Err(error))),
                Ok((length, reader)) => {
                    // A caller that stopped waiting needs nothing.
                    if head.send(Ok(length)).is_ok() {
                        pass_on(reader, bytes_max, &sender);
                    }
                }
            }
        });
        let died =
            |_| GenerateError::new(ErrorKind::Unavailable, "fetching the output ended early");
        let length = answered.await.map_err(died)??;
        OutputStream::coming(length, chunks).await
    }
}

type Reader = ureq::BodyReader<'static>;

fn begin(agent: &Agent, uri: Uri, bytes_max: u64) -> Result<(Option<u64>, Reader), GenerateError> {
    let response = agent.get(uri).call().map_err(|error| failure(&error))?;
    let status = response.status().as_u16();
    let kind = match status {
        200 => None,
        404 | 410 => Some(ErrorKind::OutputGone),
        408 | 429 | 500.. => Some(ErrorKind::Unavailable),
        _ => Some(ErrorKind::Refused),
    };
    if let Some(kind) = kind {
        let message = format!("the output cannot be had: status {status}");
        return Err(GenerateError::new(kind, message));
    }
    let length = response.body().content_length();
    if length.is_some_and(|it| bytes_max < it) {
        return Err(too_large(bytes_max));
    }
    Ok((length, response.into_body().into_reader()))
}

/// Reads to the end, to the limit, or until nobody listens any more.
fn pass_on(mut reader: Reader, bytes_max: u64, sender: &mpsc::Sender<Chunk>) {
    let mut left = bytes_max;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let chunk = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => match left.checked_sub(count as u64) {
                None => Err(too_large(bytes_max)),
                Some(rest) => {
                    left = rest;
                    Ok(bytes::Bytes::copy_from_slice(&buffer[..count]))
                }
            },
            Err(error) => Err(failure(&ureq::Error::from(error))),
        };
        let is_last = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || is_last {
            return;
        }
    }
}

fn parse(url: &str) -> Result<Uri, GenerateError> {
    let uri: Option<Uri> = Some(url).filter(|it| it.len() <= 4_096).and_then(|it| it.parse().ok());
    uri.ok_or_else(|| not_fetched(&format!("{:?} is no address", shorten(url, 200))))
}

fn not_fetched(reason: &str) -> GenerateError {
    GenerateError::new(ErrorKind::OutputAddress, format!("the output is not fetched: {reason}"))
}

fn too_large(max: u64) -> GenerateError {
    let message = format!("the output has more than {max} bytes");
    GenerateError::new(ErrorKind::OutputTooLarge, message)
}

fn failure(error: &ureq::Error) -> GenerateError {
    if let Some(refusal) = refused(error) {
        return not_fetched(&refusal.to_string());
    }
    if matches!(error, ureq::Error::BadUri(_) | ureq::Error::TooManyRedirects) {
        return not_fetched(&error.to_string());
    }
    let is_late = matches!(error, ureq::Error::Timeout(_));
    let kind = if is_late { ErrorKind::Timeout } else { ErrorKind::Unavailable };
    GenerateError::new(kind, format!("the output cannot be fetched: {error}"))
}
