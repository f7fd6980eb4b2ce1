//! Resolvers and connectors for tests: names that mean what a test says, and connections that never
//! leave this machine.

#![allow(dead_code, reason = "two test programs share this file, and each uses a part of it")]

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use steadfast_egress::{Connect, Resolve};
use tokio::net::TcpStream;

/// A resolver with prepared answers, one after the other; the last one stays.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    names: Mutex<BTreeMap<String, VecDeque<Vec<SocketAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Answers {
    /// A resolver that knows no name.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds an answer for a name. Texts that are no address are left out.
    pub(crate) fn with(self, name: &str, addresses: &[&str]) -> Self {
        let parsed = addresses.iter().filter_map(|it| it.parse().ok());
        let answer = parsed.map(|it| SocketAddr::new(it, 0)).collect();
        let mut names = self.names.lock();
        names.entry(name.to_owned()).or_default().push_back(answer);
        drop(names);
        self
    }

    /// All names asked for so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl Resolve for Answers {
    async fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().push(host.to_owned());
        let mut names = self.names.lock();
        let Some(answers) = names.get_mut(host) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such name"));
        };
        match answers.len() {
            0 | 1 => Ok(answers.front().cloned().unwrap_or_default()),
            _ => Ok(answers.pop_front().unwrap_or_default()),
        }
    }
}

/// A connector that writes down every address it is asked for. It opens a connection only where a
/// test has put a server of this machine behind the address; everybody else is refused.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    routes: BTreeMap<SocketAddr, SocketAddr>,
    asked: Mutex<Vec<SocketAddr>>,
}

impl Recorder {
    /// A connector that leads nowhere.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Puts a server of this machine behind an address. A server elsewhere is not put there.
    pub(crate) fn route(mut self, address: SocketAddr, server: SocketAddr) -> Self {
        if server.ip().is_loopback() {
            self.routes.insert(address, server);
        }
        self
    }

    /// All addresses asked for so far, in order.
    pub(crate) fn asked(&self) -> Vec<SocketAddr> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl Connect for Recorder {
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.asked.lock().push(address);
        match self.routes.get(&address) {
            Some(server) => TcpStream::connect(server).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}
