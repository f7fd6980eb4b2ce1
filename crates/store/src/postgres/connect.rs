//! Connections: the settings they all have, and the one that writes.

use std::{str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, NoTls, config::Host};

use super::trouble;
use crate::{CLOCK_STEP_MAX, Clock, OpenError};

/// Which database, and what time it is.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user@host/database`, with the parameters that libpq knows.
    pub url: String,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// A step of the clock beyond this is reported, and deletion by age waits.
    pub clock_step_max: Duration,
}

impl PostgresOptions {
    /// A store in the database of this URL.
    pub fn new(url: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self { url: url.into(), clock, clock_step_max: CLOCK_STEP_MAX }
    }
}

/// Nothing we run takes long; what does is stuck.
const SETTINGS: &str = "-c statement_timeout=30s -c lock_timeout=10s \
     -c idle_in_transaction_session_timeout=60s";

/// A durable answer needs the flush; a database that is set to do without is overruled.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'";

const READERS_MAX: usize = 8;

/// The database that a URL names.
pub(super) struct Target {
    config: Config,
    /// For people, without the password.
    pub(super) name: String,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let mut config = Config::from_str(url).map_err(|error| OpenError::Failed {
            what: "--store".into(),
            reason: format!("{}; write postgres://user@host/database", trouble::text(&error)),
        })?;
        let options = config.get_options().unwrap_or_default();
        let options = format!("{options} {SETTINGS}");
        config.options(options.trim());
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        // A server that fell silent must be noticed.
        config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".into(),
        };
        let name = format!("database {} at {host}", config.get_dbname().unwrap_or("(default)"));
        Ok(Self { config, name })
    }

    pub(super) async fn connect(&self) -> Result<Session, Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        let driver = tokio::spawn(async move {
            // Its error reaches whoever uses the client.
            let _ = connection.await;
        });
        let session = Session { client, driver };
        session.client.batch_execute(DURABLE).await?;
        Ok(session)
    }

    pub(super) fn pool(&self) -> Result<Pool, OpenError> {
        let recycling_method = RecyclingMethod::Fast;
        let config = ManagerConfig { recycling_method };
        let manager = Manager::from_config(self.config.clone(), NoTls, config);
        let wait = Some(Duration::from_secs(5));
        let builder = Pool::builder(manager).max_size(READERS_MAX).runtime(Runtime::Tokio1);
        let pool = builder.wait_timeout(wait).create_timeout(wait).recycle_timeout(wait).build();
        pool.map_err(|error| self.refused(error.to_string()))
    }

    pub(super) fn failed(&self, error: &Error) -> OpenError {
        self.refused(trouble::text(error))
    }

    pub(super) fn refused(&self, reason: String) -> OpenError {
        OpenError::Failed { what: self.name.clone(), reason }
    }
}

/// A connection and the task that drives it.
pub(super) struct Session {
    pub(super) client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
