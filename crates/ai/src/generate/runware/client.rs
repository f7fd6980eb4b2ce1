//! Posting tasks.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::Semaphore;
use ureq::Agent;

use super::{RunwareOptions, wire::Answer};
use crate::{
    agent::agent,
    generate::error::{ErrorKind, GenerateError},
};

/// Fifty finished tasks take a few ten thousand bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Posts tasks. Clones are the same one.
#[derive(Clone)]
pub(super) struct Client {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

struct Shared {
    agent: Agent,
    url: String,
    authorization: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.shared.url).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(options: &RunwareOptions) -> Result<Self, GenerateError> {
        let RunwareOptions { api_key, base_url, timeout, concurrent, .. } = options;
        let is_address = base_url.starts_with("https://") || base_url.starts_with("http://");
        let is_key = !api_key.is_empty() && api_key.bytes().all(|it| it.is_ascii_graphic());
        if !is_address || !is_key {
            let message = "Runware needs a key and an address that begins with https://";
            return Err(GenerateError::new(ErrorKind::Unauthorized, message));
        }
        let shared = Shared {
            agent: agent(base_url, *timeout),
            url: base_url.clone(),
            // In a header and not as a task of its own: bodies are what gets logged.
            authorization: format!("Bearer {api_key}"),
        };
        let places = Arc::new(Semaphore::new((*concurrent).max(1)));
        Ok(Self { shared: Arc::new(shared), places })
    }

    /// Posts tasks and reads the answer.
    ///
    /// Whoever stops waiting does not stop the post: it may be with the provider already.
    pub(super) async fn post(&self, tasks: Vec<Value>) -> Result<Answer, GenerateError> {
        let ended = |_| GenerateError::new(ErrorKind::Unavailable, "Runware is not asked any more");
        // Nobody closes the places.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| ended(()))?;
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let _place = place;
            shared.post(&Value::Array(tasks))
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| ended(()))?
    }
}

impl Shared {
    fn post(&self, tasks: &Value) -> Result<Answer, GenerateError> {
        let request = self
            .agent
            .post(&self.url)
            .header("authorization", &self.authorization)
            .header("content-type", "application/json");
        let mut response = request.send(tasks.to_string()).map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let retry_after = header("retry-after").and_then(|it| wait(it, header("date")));
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| failure(&error))?;
        Answer::parse(status, retry_after, &body)
    }
}

/// How long a server wants to be left alone: seconds, or a time. A time counts from that of the
/// answer, whatever the clock of this machine says.
fn wait(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = |text: &str| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    let seconds = at(text)?.as_second().saturating_sub(at(date?.trim())?.as_second());
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn failure(error: &ureq::Error) -> GenerateError {
    let kind = if matches!(error, ureq::Error::Timeout(_)) {
        ErrorKind::Timeout
    } else if matches!(error, ureq::Error::BodyExceedsLimit(_)) {
        ErrorKind::Answer
    } else {
        ErrorKind::Unavailable
    };
    GenerateError::new(kind, format!("Runware cannot be asked: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_given_in_seconds_or_as_a_time() {
        let date = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        let seconds = |it: &str| wait(it, date).map(|it| it.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:29:30 GMT"), Some(90));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:27:00 GMT"), Some(0), "it is over");
        for bad in ["", "-1", "soon", "Wed, 21 Oct 2015"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(wait("Wed, 21 Oct 2015 07:29:30 GMT", None), None);
    }
}
