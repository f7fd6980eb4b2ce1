//! A Runware for tests: it speaks the protocol, charges nobody, and misbehaves as the prompt says.
//! See [`Behaviour`] for the words.

mod behaviour;
mod file;
mod record;
mod tasks;
mod webhook;

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use steadfast_egress::Network;
use steadfast_generations::providers::{Delivery, FetchOptions, Reconcile, RunwareOptions};

pub use self::behaviour::{Behaviour, Webhooks};
use self::record::Record;

/// The key that it knows.
pub const KEY: &str = "fake-key";

/// A server on this machine. It ends when it is dropped.
#[derive(Debug)]
pub struct FakeRunware {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    tasks: Mutex<HashMap<String, Record>>,
    is_over: AtomicBool,
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        self.tasks.lock()
    }
}

impl FakeRunware {
    /// Starts it at a free port.
    pub fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (tasks, is_over) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { address, tasks, is_over });
        let server = Arc::clone(&shared);
        thread::Builder::new().name("fake-runware".into()).spawn(move || {
            for stream in listener.incoming() {
                if server.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), server) = (stream, Arc::clone(&server)) else { continue };
                thread::spawn(move || {
                    // A client that is gone is one of the things that happen.
                    let _ = server.serve(stream);
                });
            }
        })?;
        Ok(Self { shared })
    }

    /// Where its interface is.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.shared.address)
    }

    /// Options for a client of it, with short waits. Images come with the answer.
    pub fn options(&self) -> RunwareOptions {
        RunwareOptions {
            base_url: self.url(),
            timeout: Duration::from_secs(5),
            image_delivery: Delivery::Sync,
            reconcile: Reconcile::Details,
            fetch: FetchOptions {
                hosts: Vec::new(),
                private: vec![Network::from(self.shared.address.ip())],
                idle: Duration::from_secs(2),
                timeout: Duration::from_secs(20),
                ..FetchOptions::default()
            },
            ..RunwareOptions::new(KEY)
        }
    }

    /// The ids of all tasks that it has seen.
    pub fn tasks(&self) -> Vec<String> {
        self.shared.tasks().keys().cloned().collect()
    }

    /// A task as it was handed in the first time.
    pub fn request(&self, task: &str) -> Option<Value> {
        self.shared.tasks().get(task).map(|it| it.request.clone())
    }

    /// How often a task was handed in, whatever became of that.
    pub fn submissions(&self, task: &str) -> u32 {
        self.shared.tasks().get(task).map_or(0, |it| it.submissions)
    }

    /// How often a task was charged.
    pub fn billings(&self, task: &str) -> u32 {
        self.shared.tasks().get(task).map_or(0, |it| it.billings)
    }

    /// The most that any task was charged.
    pub fn billings_max(&self) -> u32 {
        self.shared.tasks().values().map(|it| it.billings).max().unwrap_or(0)
    }

    /// How often it was asked about a task.
    pub fn polls(&self, task: &str) -> u32 {
        self.shared.tasks().get(task).map_or(0, |it| it.polls)
    }

    /// The statuses that a task's webhooks were answered with; 0 for none at all.
    pub fn webhooks(&self, task: &str) -> Vec<u16> {
        self.shared.tasks().get(task).map_or_else(Vec::new, |it| it.webhooks.clone())
    }

    /// Sends the webhook of a task now, once more or at last, and waits for it.
    pub fn send_webhook(&self, task: &str) {
        self.shared.send_webhook(task);
    }
}

impl Drop for FakeRunware {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes it up, so that it sees that it is over.
        let _ = TcpStream::connect(self.shared.address);
    }
}
