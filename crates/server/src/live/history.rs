//! Server-sent events: the history of a run while it grows.

use std::sync::Arc;

use axum::response::{Response, sse::Event};
use futures_util::FutureExt;
use serde_json::json;
use steadfast_core::{RunError, workflow::HistoryEntry};
use tokio::{sync::mpsc, time::timeout};

use super::{
    WRITE_TIMEOUT,
    events::{RETRY, answer_of, close, send_last},
};
use crate::{access::Admission, listener::ConnectionSlot, server::Server, waiting::WaitPlace};

/// Entries per read, which bounds the memory per client.
const PAGE: usize = 50;

/// A client that follows a run.
pub(crate) struct Follower {
    pub(crate) server: Arc<Server>,
    /// The stream ends with the access of its caller.
    pub(crate) admission: Admission,
    pub(crate) workflow: String,
    pub(crate) id: String,
    /// The last number that the client has.
    pub(crate) after: i64,
    /// Its place, released at the end.
    pub(crate) place: WaitPlace,
}

/// How a followed history ended.
enum End {
    /// The run has ended, with this entry.
    Ended(String),
    /// The client should reconnect; code and reason.
    Closed(String, String),
    /// The client has disconnected.
    Gone,
}

/// The response that streams until the run has ended.
pub(crate) fn answer(follower: Follower, slot: Option<ConnectionSlot>) -> Response {
    let (out, events) = mpsc::channel(1);
    tokio::spawn(run(follower, out, slot).boxed());
    answer_of(events)
}

async fn run(mut follower: Follower, out: mpsc::Sender<Event>, slot: Option<ConnectionSlot>) {
    let access_ended = follower.admission.clone().ended(follower.server.clone());
    let end = tokio::select! {
        end = follower.stream_entries(&out) => end,
        () = access_ended => End::Closed("token_ended".into(), super::access_closed().reason),
    };
    let last = match end {
        End::Ended(entry) => {
            Event::default().event("end").data(json!({ "entry": entry }).to_string())
        }
        End::Closed(code, reason) => {
            let why = json!({ "code": code, "reason": reason });
            Event::default().event("closed").data(why.to_string())
        }
        End::Gone => return,
    };
    send_last(out, last).await;
    drop(follower.place);
    close(slot).await;
}

impl Follower {
    /// Streams every entry until the end.
    async fn stream_entries(&mut self, out: &mpsc::Sender<Event>) -> End {
        let hello = Event::default().retry(RETRY).comment("connected");
        if let Err(end) = send(out, hello).await {
            return end;
        }
        // After a reconnect past the end there is nothing more to send.
        let mut ended = match self.read(self.after - 1, 1).await {
            Ok(seen) => end_of(seen.last().filter(|it| it.number == self.after)),
            Err(end) => return end,
        };
        loop {
            let page = match self.read(self.after, PAGE).await {
                Ok(page) => page,
                Err(end) => return end,
            };
            for entry in &page {
                if let Err(end) = send(out, event(entry)).await {
                    return end;
                }
                self.after = entry.number;
                ended = end_of(Some(entry));
            }
            if !page.is_empty() {
                continue;
            }
            if let Some(entry) = ended {
                return End::Ended(entry);
            }
            let grown = self.server.runtime.runs().grown(&self.workflow, &self.id, self.after);
            tokio::select! {
                grown = grown => if let Err(error) = grown { return closed(&error) },
                () = out.closed() => return End::Gone,
                () = self.server.stopping.cancelled() => {
                    return End::Closed("stopping".into(), "server is stopping: reconnect".into());
                }
            }
        }
    }

    async fn read(&self, after: i64, limit: usize) -> Result<Vec<HistoryEntry>, End> {
        let read = self.server.runtime.runs().history(&self.workflow, &self.id, after, limit).await;
        read.map_err(|error| closed(&error))
    }
}

fn closed(error: &RunError) -> End {
    End::Closed(error.code().into(), error.to_string())
}

fn end_of(entry: Option<&HistoryEntry>) -> Option<String> {
    entry.filter(|it| it.is_end()).map(|it| it.entry.clone())
}

fn event(entry: &HistoryEntry) -> Event {
    let text = serde_json::to_string(entry).unwrap_or_default();
    Event::default().id(entry.number.to_string()).data(text)
}

async fn send(out: &mpsc::Sender<Event>, event: Event) -> Result<(), End> {
    match timeout(WRITE_TIMEOUT, out.send(event)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Closed("too_slow".into(), "too slow: reconnect".into())),
    }
}
