//! Posting tasks.

use std::time::Duration;

use serde_json::Value;
use steadfast_core::store::Timestamp;
use steadfast_egress::{Poster, Service, ServiceError, ServiceOptions};

use super::{RunwareOptions, wire::Answer};
use crate::providers::error::{ErrorKind, GenerateError};

/// Fifty finished tasks take a few ten thousand bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Posts tasks. Clones share the limit of concurrent requests.
#[derive(Clone, Debug)]
pub(super) struct Client {
    service: Service,
}

impl Client {
    pub(super) fn new(options: &RunwareOptions) -> Result<Self, GenerateError> {
        let service = Service::new(ServiceOptions {
            url: &options.base_url,
            // In a header and not as a task of its own: bodies are what gets logged.
            key: Some(&options.api_key),
            timeout: options.timeout,
            concurrent: options.concurrent,
            answer_bytes_max: ANSWER_BYTES_MAX,
        });
        let service = service.ok_or_else(|| {
            let message = "Runware needs a key and an address that begins with https://";
            GenerateError::new(ErrorKind::Unauthorized, message)
        })?;
        Ok(Self { service })
    }

    /// Posts tasks and reads the answer. Dropping the future does not stop the request: the
    /// provider may have it already.
    pub(super) async fn post(&self, tasks: Vec<Value>) -> Result<Answer, GenerateError> {
        let ended = || GenerateError::new(ErrorKind::Unavailable, "Runware is not asked any more");
        let work = || move |poster: &Poster| post(poster, &Value::Array(tasks));
        self.service.run(work).await.ok_or_else(ended)?
    }
}

fn post(poster: &Poster, tasks: &Value) -> Result<Answer, GenerateError> {
    let posted = poster.post("application/json", tasks.to_string().as_bytes());
    let answer = posted.map_err(|error| {
        let kind = match &error {
            ServiceError::Timeout { .. } => ErrorKind::Timeout,
            ServiceError::TooLarge { .. } => ErrorKind::Answer,
            ServiceError::Unavailable { .. } => ErrorKind::Unavailable,
        };
        GenerateError::new(kind, format!("Runware cannot be asked: {error}"))
    })?;
    let retry_after = answer.header("retry-after").and_then(|it| wait(it, answer.header("date")));
    Answer::parse(answer.status, retry_after, &answer.body)
}

/// How long a server wants to be left alone: seconds, or a time. A time counts from that of the
/// answer, whatever the clock of this machine says.
fn wait(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = Timestamp::from_http_date(date?)?;
    Some(Timestamp::from_http_date(text)?.since(date))
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
