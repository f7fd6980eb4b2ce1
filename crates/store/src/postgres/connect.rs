//! Connections: the settings they all have, and the one that writes.

use std::{
    future::poll_fn,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, NoTls,
    config::{Host, TargetSessionAttrs},
    error::Severity,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    batch_error,
    node::{self, WriterLink},
    tls::TlsSettings,
};
use crate::{
    CLOCK_STEP_MAX, Clock, OpenError,
    sql::{MIGRATIONS, Migration},
};

/// A database, and the clock.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user@host/database`, with the parameters of libpq. Except over a socket or to
    /// this machine, the server must have a certificate for its name: `sslmode=verify-full` is the
    /// default, `sslrootcert=FILE` names other roots than those of the machine, and
    /// `sslmode=disable` turns encryption off.
    pub url: String,
    /// The clock of this machine.
    pub clock: Arc<dyn Clock>,
    /// A larger step of the clock is reported, and suspends deletion by age.
    pub clock_step_max: Duration,
    /// Continue although the database lacks acknowledged commits.
    pub accept_loss: bool,
    /// A file in the data folder of this machine in which it notes, at most once a second, what was
    /// acknowledged last. With it a database that lacks acknowledged commits is noticed also if its
    /// last owner has ended.
    pub memo: Option<PathBuf>,
    /// The migrations that follow the baseline. Tests of the mechanism give their own.
    #[doc(hidden)]
    pub migrations: &'static [Migration],
    /// The lease, for tests on machines that pause. Another process takes over 15 s after the last
    /// heartbeat, however long this is.
    #[doc(hidden)]
    pub lease: Duration,
}

impl PostgresOptions {
    /// A store in the database of this URL.
    pub fn new(url: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            url: url.into(),
            clock,
            clock_step_max: CLOCK_STEP_MAX,
            accept_loss: false,
            memo: None,
            migrations: MIGRATIONS,
            lease: node::LEASE,
        }
    }
}

/// All statements of this crate are short; a long one is stuck.
const SETTINGS: &str = "-c statement_timeout=30s -c lock_timeout=10s \
     -c idle_in_transaction_session_timeout=60s";

/// A durable answer needs the flush; this overrides the setting of the database.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'";

const READERS_MAX: usize = 8;

/// The database that a URL names.
pub(super) struct Target {
    config: Config,
    /// `None` if the connection is plain.
    tls: Option<MakeRustlsConnect>,
    /// The name without the password, for messages.
    pub(super) name: String,
    /// How long a store in it is owned after a heartbeat.
    pub(super) lease: Duration,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let refused = |reason| OpenError::Failed { what: "--store".into(), reason };
        let (url, tls) = TlsSettings::take_from(url);
        let mut config = Config::from_str(&url).map_err(|error| {
            refused(format!("{}; write postgres://user@host/database", batch_error::text(&error)))
        })?;
        let tls = tls.connector(&mut config).map_err(refused)?;
        // A standby is behind, and a former primary may still accept connections.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let options = config.get_options().unwrap_or_default();
        let options = format!("{options} {SETTINGS}");
        config.options(options.trim());
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        // Detects a server that does not answer any more.
        config.keepalives_idle(Duration::from_secs(4)).keepalives_interval(Duration::from_secs(1));
        config.keepalives_retries(4).tcp_user_timeout(Duration::from_secs(8));
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".into(),
        };
        let name = format!("database {} at {host}", config.get_dbname().unwrap_or("(default)"));
        Ok(Self { config, tls, name, lease: node::LEASE })
    }

    pub(super) async fn connect(&self) -> Result<Session, Error> {
        let warned = Arc::new(AtomicBool::new(false));
        let (client, driver) = match self.tls.clone() {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls).await?;
                (client, tokio::spawn(drive(connection, warned.clone()).boxed()))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, tokio::spawn(drive(connection, warned.clone()).boxed()))
            }
        };
        let session = Session { client, driver, warned };
        session.client.batch_execute(DURABLE).await?;
        Ok(session)
    }

    /// Connections for readers. Each of them is to a database that has all acknowledged commits.
    pub(super) fn pool(&self, link: Arc<WriterLink>) -> Result<Pool, OpenError> {
        let recycling_method = RecyclingMethod::Fast;
        let config = ManagerConfig { recycling_method };
        let manager = match self.tls.clone() {
            Some(tls) => Manager::from_config(self.config.clone(), tls, config),
            None => Manager::from_config(self.config.clone(), NoTls, config),
        };
        let wait = Some(Duration::from_secs(5));
        let check = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let link = link.clone();
            Box::pin(async move {
                match node::is_behind(client, link.acknowledged()).await {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(HookError::message("the database lacks acknowledged commits")),
                    Err(error) => Err(HookError::Backend(error)),
                }
            })
        });
        let builder = Pool::builder(manager).max_size(READERS_MAX).runtime(Runtime::Tokio1);
        let builder = builder.post_create(check);
        let pool = builder.wait_timeout(wait).create_timeout(wait).recycle_timeout(wait).build();
        pool.map_err(|error| self.refused(error.to_string()))
    }

    pub(super) fn failed(&self, error: &Error) -> OpenError {
        self.refused(batch_error::text(error))
    }

    pub(super) fn refused(&self, reason: String) -> OpenError {
        OpenError::Failed { what: self.name.clone(), reason }
    }
}

/// Drives a connection, and records warnings of the server. The client returns its errors.
async fn drive<S, T>(mut connection: Connection<S, T>, warned: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.parsed_severity() == Some(Severity::Warning)
        {
            tracing::warn!(warning = notice.message(), "the database warns");
            warned.store(true, Ordering::Release);
        }
    }
}

/// A connection and the task that drives it.
pub(super) struct Session {
    pub(super) client: Client,
    driver: JoinHandle<()>,
    warned: Arc<AtomicBool>,
}

impl Session {
    /// Whether the server has warned since the last call: a commit with a warning is durable here,
    /// but perhaps not on a replica.
    pub(super) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::AcqRel)
    }

    /// Closes the connection: the server undoes what is not committed.
    pub(super) fn end(&self) {
        self.driver.abort();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
