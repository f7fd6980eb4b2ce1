//! A proxy to PostgreSQL that can disconnect, delay, redirect, or drop all traffic.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// Listens on a local port and forwards to the socket of a cluster.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The target of new connections.
    target: PathBuf,
    /// Drops all traffic silently.
    is_hole: bool,
    /// The delay of each piece.
    delay: Duration,
    /// Connections of an earlier generation are over.
    time: u64,
}

impl Proxy {
    /// Forwards to the socket in this folder.
    pub(crate) fn to(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let target = folder.join(".s.PGSQL.5432");
        let state = State { target, is_hole: false, delay: Duration::ZERO, time: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let of_listener = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = of_listener.clone();
                std::thread::spawn(move || shared.connect(&client));
            }
        });
        Self { port, shared }
    }

    /// The URL of the database through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("postgres://steadfast@127.0.0.1:{}/postgres", self.port)
    }

    /// Forwards new connections to the socket in this folder.
    pub(crate) fn lead_to(&self, folder: &Path) {
        self.shared.state().target = folder.join(".s.PGSQL.5432");
    }

    /// Ends all existing connections.
    pub(crate) fn cut(&self) {
        self.shared.state().time += 1;
        self.shared.changed.notify_all();
    }

    /// Sets whether all traffic is dropped.
    pub(crate) fn swallow(&self, is_hole: bool) {
        self.shared.state().is_hole = is_hole;
        self.shared.changed.notify_all();
    }

    /// Sets the delay of each piece.
    pub(crate) fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn connect(self: &Arc<Self>, client: &TcpStream) {
        let (target, time) = {
            let state = self.state();
            (state.target.clone(), state.time)
        };
        let Ok(server) = UnixStream::connect(target) else { return };
        let ends = (client.try_clone(), client.try_clone(), server.try_clone(), server.try_clone());
        let (Ok(c1), Ok(c2), Ok(s1), Ok(s2)) = ends else { return };
        let (up, down) = (self.clone(), self.clone());
        let up = std::thread::spawn(move || up.carry(c1, s1, time));
        let down = std::thread::spawn(move || down.carry(s2, c2, time));
        // A disconnect of either side, or a cut, ends both directions.
        let mut state = self.state();
        while state.time == time && !up.is_finished() && !down.is_finished() {
            let looked = self.changed.wait_timeout(state, Duration::from_millis(20));
            state = looked.expect("no panic").0;
        }
        // While traffic is dropped, an end does not see that the other end has disconnected.
        while state.time == time && state.is_hole {
            state = self.changed.wait(state).expect("no panic");
        }
        drop(state);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }

    fn carry(&self, mut from: impl Read, mut to: impl Write, time: u64) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if !self.lets_through(time) || to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    }

    /// Waits for the delay; `false` if the connection is over.
    fn lets_through(&self, time: u64) -> bool {
        let mut state = self.state();
        if !state.delay.is_zero() {
            let delay = state.delay;
            let waited = self.changed.wait_timeout_while(state, delay, |it| it.time == time);
            state = waited.expect("no panic").0;
        }
        while state.is_hole && state.time == time {
            state = self.changed.wait(state).expect("no panic");
        }
        state.time == time
    }
}
