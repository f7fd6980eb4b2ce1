//! The verb `serve`: opens the store, listens, prints the address, and stops in order.

use std::{fmt::Display, io::Write, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use steadfast_core::{
    App, CLOSE_TIMEOUT, ObjectOptions, background_threads, is_closed, program_of, refuse_foreign,
    refuse_foreign_database,
};
use steadfast_store::{Clock, Commit, Health, SealFile, Store, SystemClock};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{
        admin::{self, AddressFile, AdminToken},
        head::HeadFile,
        rate::Rates,
    },
    app,
    args::{Access, InspectArgs, SERVER, ServeArgs},
    failure::Failure,
    listener::DrainResult,
    location::{Location, StoreChoice},
    network::Scheme,
    open::{OpenOptions, open_store, tighten, wait_for_store},
    ports::{Addresses, Ports},
    process::{self, Signals},
    server::{Policy, Server},
    transport::Transport,
};

/// Interval of health checks of the store. A check reads a flag, never the database.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// Interval of clock checks, and of attempts to write to a degraded store.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Interval of looks at the admin token.
const RENEWAL_PERIOD: Duration = Duration::from_hours(1);

/// Serves until a signal or until the store fails.
pub(crate) fn run(args: ServeArgs, app: App) -> Result<(), Failure> {
    process::start_log(args.log);
    for file in &args.open_secrets {
        tracing::warn!(file, "other users may read this file of a secret; use mode 0600");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Requests run on other threads than background work.
    let work = background_threads()?;
    let result = runtime.block_on(serve(args, app, work.handle()));
    work.shutdown_background();
    runtime.shutdown_background();
    result
}

fn object_options(args: &ServeArgs) -> ObjectOptions {
    ObjectOptions {
        idle_time: Duration::from_secs(args.object_idle.get().into()),
        awake_bytes_max: args.object_memory.to_usize() << 20,
        ..ObjectOptions::default()
    }
}

async fn serve(args: ServeArgs, mut app: App, work: &Handle) -> Result<(), Failure> {
    // Report conflicts before anything is opened.
    app::claim_routes(&mut app);
    app.check()?;
    let transport = Arc::new(Transport::of(&args.transport)?);
    if args.access == Access::Closed {
        transport.close();
    }
    let data = std::path::absolute(&args.data)?;
    let location = match &args.store {
        StoreChoice::Sqlite => Location::Folder(data.clone()),
        StoreChoice::Postgres(url) => Location::Database(url.clone()),
    };
    let mut signals = Signals::catch()?;
    process::allow_many_files();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (ports, store) = tokio::select! {
        opened = open(&args, app.name(), &location, &clock, &transport) => opened?,
        () = signals.next() => return Ok(()),
    };
    let opened = Opened { ports, store: store.clone(), location, clock, transport };
    let served = serve_on(&args, app, work, opened, signals).await;
    if served.is_err() {
        // Closing twice is harmless.
        store.close().await;
    }
    served
}

/// The ports and the store of a server.
struct Opened {
    ports: Ports,
    store: Arc<dyn Store>,
    location: Location,
    clock: Arc<dyn Clock>,
    transport: Arc<Transport>,
}

/// Serves an open store.
async fn serve_on(
    args: &ServeArgs,
    app: App,
    work: &Handle,
    Opened { ports, store, location, clock, transport }: Opened,
    mut signals: Signals,
) -> Result<(), Failure> {
    let data = std::path::absolute(&args.data)?;
    let name = app.name().to_owned();
    let app = if args.adopt { app.adopt() } else { app };
    let program = app
        .object_options(object_options(args))
        .retention(args.keep())
        .blob_folder(data.join("blobs"))
        .seal_key_folder(&data);
    let program = if args.replace_seal_key { program.replace_seal_key() } else { program };
    let mut server = Server::prepare(program, store.clone(), location, Policy::Loopback).await?;
    tighten(&data).await?;
    server.open_secrets.clone_from(&args.open_secrets);
    server.transport = transport.clone();
    server.rates = Rates::per_second(args.rate_limit);
    (server.address, server.s3_address) = (Some(ports.addresses.http), ports.addresses.s3);
    server.data = Some(data.clone());
    let server = Arc::new(server);
    let routes = app::routes(server.clone())?;
    let working = server.clone();
    let started = work.spawn(async move { working.runtime.work().await }).await;
    started.map_err(|error| Failure::new(format!("deliveries cannot start ({error})")))??;
    log_unserved(&server).await;
    let login = access(args, &server).await?;
    let _address = AddressFile::write(&data, ports.addresses.http).inspect_err(|error| {
        // A full disk does not prevent the start.
        tracing::warn!(%error, "address not written: commands need --token-file");
    });
    let mut head = HeadFile::open(server.runtime.audit(), &data).await;
    let scheme = transport.scheme();
    print_greeting(&greeting(&name, &server.location, (scheme, ports.addresses), &login));
    let stop = CancellationToken::new();
    let serving = ports.serve(routes, &server, &clock, &stop);
    let mut serving = std::pin::pin!(serving);
    let failed = tokio::select! {
        _ = &mut serving => unreachable!("serving ends only when it is stopped"),
        () = signals.next() => None,
        reason = failure_of(|| store.health(), clock.as_ref()) => Some(reason),
        () = watch(store.as_ref()) => None,
        () = server.history.measure(store.as_ref(), clock.as_ref()) => None,
        () = transport.watch(clock.as_ref()) => None,
        () = renew(&server) => None,
        () = head.keep(clock.as_ref()) => None,
    };
    server.drain();
    stop.cancel();
    tracing::info!("draining");
    let ending = async {
        // Close live connections, so that they do not delay the shutdown.
        let (drained, ()) = tokio::join!(serving, server.runtime.hang_up());
        log_drained(&drained);
        server.runtime.clone().stop().await;
        head.end().await;
        if tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await.is_err() {
            tracing::warn!("store not closed in time");
        }
    };
    tokio::select! {
        () = ending => {}
        () = signals.next() => return Err(Failure::new("stopped immediately by a second signal")),
    }
    tracing::info!("stopped");
    failed.map_or(Ok(()), |reason| Err(Failure::new(format!("the store failed: {reason}"))))
}

/// Renews the admin token of the machine in time, and writes it again if it was deleted.
async fn renew(server: &Server) {
    loop {
        server.runtime.store().clock().sleep(RENEWAL_PERIOD).await;
        if !server.is_open()
            && let Err(error) = server.close_access().await
        {
            tracing::warn!(%error, "the admin token cannot be renewed; see `steadfast doctor`");
        }
    }
}

/// Determines the mode of access. From the first token on it is closed, and the data folder has an
/// admin token: a folder without one gets it now.
async fn access(args: &ServeArgs, server: &Server) -> Result<Login, Failure> {
    let tokens = server.runtime.tokens();
    if args.access == Access::Closed {
        tokens.close().await.map_err(|error| access_failed(&error))?;
    }
    if !tokens.is_closed().await.map_err(|error| access_failed(&error))? {
        return Ok(Login::Open);
    }
    let admin = match server.close_access().await {
        Err(error) if error.is_disk_full() => {
            tracing::warn!(%error, "admin token not written; the server tries again every hour");
            None
        }
        admin => admin.map_err(|error| access_failed(&error))?,
    };
    match admin {
        Some(AdminToken { id, is_new: true }) => {
            let code = server.runtime.sessions().link(&id).await;
            Ok(Login::Link(code.map_err(|error| access_failed(&error))?))
        }
        Some(_) | None => Ok(Login::Closed),
    }
}

/// The way into a store that is only read. Nothing may be written into its folder, so the holder of
/// its admin token gets a link instead of an address for the command line. Nobody renews that
/// token, so it does not expire.
async fn login_of(server: &Server, folder: &Path) -> Login {
    if let Ok(false) = server.runtime.tokens().is_closed().await {
        return Login::Open;
    }
    let Some(secret) = admin::read(folder) else { return Login::Closed };
    server.runtime.tokens().ignore_expiry_of(admin::MACHINE);
    let link = async {
        let principal = server.runtime.tokens().authenticate(secret.expose()).await?;
        server.runtime.sessions().link(&principal.token).await
    };
    link.await.map_or(Login::Closed, Login::Link)
}

/// The part of the greeting about access.
enum Login {
    /// No credential is needed.
    Open,
    /// Credentials are needed.
    Closed,
    /// Credentials are needed, and this code logs a browser in once.
    Link(String),
}

/// Logs stored work that this program does not serve.
async fn log_unserved(server: &Server) {
    match server.runtime.unserved().await {
        Ok(unserved) => {
            for it in server.unserved.get_or_init(|| unserved) {
                tracing::warn!("{it}, which this program does not declare; they are kept");
            }
        }
        Err(error) => tracing::warn!(error = %error, "stored work cannot be read"),
    }
}

/// Serves a folder read-only, until a signal.
pub(crate) fn inspect(args: &InspectArgs, name: String) -> Result<(), Failure> {
    process::start_log(args.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(look(args, name));
    runtime.shutdown_background();
    result
}

async fn look(args: &InspectArgs, name: String) -> Result<(), Failure> {
    let folder = std::path::absolute(&args.data)?;
    let location = Location::Folder(folder.clone());
    let mut signals = Signals::catch()?;
    process::allow_many_files();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let listen = Addresses { http: args.listen, s3: None, webhooks: None };
    let ports = Ports::bind(listen, &Transport::default())?;
    let options = OpenOptions { read_only: true, ..OpenOptions::DEFAULT };
    let store = open_store(&location, clock.clone(), options).await?;
    let name = format!("{} (read-only)", program_of(&store).await?.unwrap_or(name));
    let key = match &args.seal_key_file {
        Some(file) => SealFile::named(file),
        None => SealFile::in_folder(&folder),
    };
    // It declares nothing, so nothing is delivered: everything in the store can be read.
    let app = app::read_only(App::new(&*name).adopt(), &folder, key);
    let mut server = Server::prepare(app, store.clone(), location, Policy::Loopback).await?;
    (server.is_read_only, server.address) = (true, Some(ports.addresses.http));
    let server = Arc::new(server);
    let login = login_of(&server, &folder).await;
    let at = (Scheme::Http, ports.addresses);
    print_greeting(&greeting(&name, &server.location, at, &login));
    let (stop, routes) = (CancellationToken::new(), app::routes(server.clone())?);
    let serving = ports.serve(routes, &server, &clock, &stop);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = &mut serving => unreachable!("serving ends only when it is stopped"),
        () = signals.next() => {}
    }
    server.drain();
    stop.cancel();
    log_drained(&serving.await);
    server.runtime.clone().stop().await;
    store.close().await;
    Ok(())
}

/// Binds the ports and opens the store. The name of the store's program is read first, then the
/// ports are bound: unbinding has no side effects, opening a store does. But a process that waits
/// for its store must not listen, and a store may have to say first that access is closed.
async fn open(
    args: &ServeArgs,
    program: &str,
    location: &Location,
    clock: &Arc<dyn Clock>,
    transport: &Transport,
) -> Result<(Ports, Arc<dyn Store>), Failure> {
    match location {
        Location::Folder(folder) if !args.adopt => refuse_foreign(folder, program).await?,
        Location::Database(url) if !args.adopt => refuse_foreign_database(url, program).await?,
        Location::Folder(_) | Location::Database(_) | Location::Host => {}
    }
    let clock_step_max = Duration::from_secs(args.clock_step.get().into());
    let memo = Some(args.data.join("acknowledged"));
    let accept_loss = args.accept_loss;
    let options = OpenOptions { clock_step_max, accept_loss, read_only: false, memo };
    let webhooks = args.transport.webhooks_listen;
    let listen = Addresses { http: args.listen, s3: args.s3_listen.address(), webhooks };
    let bind = || transport.check().and_then(|()| Ports::bind(listen, transport));
    // A new store is open, and is not created for a server that is refused.
    let is_empty = |it: &Path| it.read_dir().map_or(true, |mut files| files.next().is_none());
    let is_new = matches!(location, Location::Folder(folder) if is_empty(folder));
    let is_decided = transport.is_closed() || is_new || !transport.needs_closed(listen.all());
    if !args.wait_for_owner && is_decided {
        let ports = bind()?;
        return Ok((ports, open_store(location, clock.clone(), options).await?));
    }
    let store = match args.wait_for_owner {
        true => wait_for_store(location, clock.clone(), options).await?,
        false => open_store(location, clock.clone(), options).await?,
    };
    let closed = is_closed(store.clone()).await;
    let bound = closed.map_err(|error| access_failed(&error)).and_then(|closed| {
        if closed {
            transport.close();
        }
        bind()
    });
    if bound.is_err() {
        store.close().await;
    }
    Ok((bound?, store))
}

fn access_failed(error: &dyn Display) -> Failure {
    Failure::new(format!("access cannot be set up: {error}"))
}

/// Returns when the store can never write again in this process.
async fn failure_of(health: impl Fn() -> Health, clock: &dyn Clock) -> String {
    loop {
        if let Health::Failed { reason } = health() {
            return reason;
        }
        clock.sleep(HEALTH_PERIOD).await;
    }
}

/// Reads the store's clock, which logs a step of the wall clock. While the store cannot write,
/// tries an empty commit: perhaps no other caller does.
async fn watch(store: &dyn Store) {
    loop {
        store.clock().now();
        if let Health::Degraded { .. } = store.health() {
            // The store reports the result itself.
            let _ = store.commit(Commit::default()).await;
        }
        store.clock().sleep(WATCH_PERIOD).await;
    }
}

fn log_drained(drained: &DrainResult) {
    match drained {
        DrainResult::All => tracing::debug!("all requests answered"),
        DrainResult::CutOff(count) => tracing::warn!(count, "connections closed at the deadline"),
    }
}

/// Prints the address and the next commands. Output errors are ignored.
fn print_greeting(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn greeting(
    name: &str,
    location: &Location,
    (scheme, addresses): (Scheme, Addresses),
    login: &Login,
) -> String {
    let Addresses { http: address, s3, webhooks } = addresses;
    let url = format!("{scheme}://{address}");
    let program = std::env::args().next().unwrap_or_else(|| name.into());
    let title = if name == "steadfast" { "Steadfast" } else { name };
    let line = |label: &str, address: Option<SocketAddr>| {
        address.map_or(String::new(), |it| format!("\n  {label:<12} {scheme}://{it}/"))
    };
    let (s3, webhooks) = (line("S3 API", s3), line("webhooks", webhooks));
    let server = if url == SERVER { String::new() } else { format!(" --server {url}") };
    let access = match login {
        Login::Open => "open: everybody on this machine may do everything".to_owned(),
        Login::Closed => format!("closed: `{program} login` prints a link for the browser"),
        Login::Link(code) => format!(
            "closed: {file} in the data folder is the admin token; this link logs in once:\n  \
             {pad:<12} {url}/login#{code}",
            file = admin::FILE,
            pad = ""
        ),
    };
    format!(
        "{title} {version} is running.\n\n  \
           {address:<12} {url}/{s3}{webhooks}\n  \
           {noun:<12} {location} ({store})\n  \
           {mode:<12} {access}\n\n\
         Next, in another terminal:\n  \
           {program} streams list{server}\n  \
           {program} doctor{server}\n  \
           {third}\n\n\
         Press Ctrl-C to stop.\n",
        version = env!("CARGO_PKG_VERSION"),
        address = "address",
        third = match login {
            Login::Open => format!("curl {url}/openapi.json"),
            Login::Closed | Login::Link(_) => format!("{program} whoami{server}"),
        },
        mode = "access",
        noun = location.noun(),
        store = location.store(),
    )
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Poll};

    use steadfast_core::DispatcherOptions;
    use steadfast_store::{ManualClock, Timestamp};
    use tokio::sync::watch;

    use super::*;
    use crate::listener::DRAIN_TIMEOUT;

    #[tokio::test]
    async fn a_server_survives_a_degraded_store_but_not_a_failed_one() {
        let health = watch::Sender::new(Health::Ready);
        let clock = ManualClock::at(Timestamp(0));
        let mut failure = std::pin::pin!(failure_of(|| health.borrow().clone(), &clock));
        let mut waits =
            async || poll_fn(|cx| Poll::Ready(failure.as_mut().poll(cx).is_pending())).await;
        assert!(waits().await);
        health.send_replace(Health::Degraded { reason: "away".into() });
        clock.advance(HEALTH_PERIOD);
        assert!(waits().await);
        health.send_replace(Health::Failed { reason: "fsync".into() });
        clock.advance(HEALTH_PERIOD);
        assert_eq!(failure.await, "fsync");
    }

    fn at(http: u16, s3: Option<u16>) -> Addresses {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        Addresses { http: local(http), s3: s3.map(local), webhooks: None }
    }

    #[tokio::test]
    async fn the_holder_of_an_old_admin_token_looks_at_a_store() {
        let (data, app) = (tempfile::tempdir().unwrap(), App::new("host").test().await.unwrap());
        admin::ensure(&app, data.path()).await.unwrap();
        app.advance(Duration::from_hours(91 * 24)).await;
        let server = Server::new((*app).clone(), Location::Host, Policy::Loopback);
        let Login::Link(code) = login_of(&server, data.path()).await else { panic!("no link") };
        app.sessions().begin_with_link(&code, None).await.unwrap();
    }

    #[test]
    fn the_unit_of_a_new_project_waits_for_the_longest_orderly_stop() {
        let unit = include_str!("../../../steadfast/src/new/unit.service.in");
        let limit = unit.lines().find_map(|it| it.strip_prefix("TimeoutStopSec=")).unwrap();
        let limit = Duration::from_secs(limit.parse().unwrap());
        // Requests and live connections, deliveries, buckets, store.
        let grace = DispatcherOptions::default().grace;
        let longest = DRAIN_TIMEOUT.max(grace) + grace + CLOSE_TIMEOUT + CLOSE_TIMEOUT;
        // Leases are returned after the grace period of deliveries.
        assert!(longest + Duration::from_secs(5) <= limit, "{longest:?} of {limit:?}");
    }

    #[test]
    fn the_greeting_has_the_address_the_data_folder_and_next_commands() {
        let text = greeting(
            "steadfast",
            &Location::Folder("/srv/data".into()),
            (Scheme::Http, at(8787, None)),
            &Login::Open,
        );
        for shown in [
            "http://127.0.0.1:8787/",
            "/srv/data (SQLite)",
            "access       open: everybody on this machine",
            "streams list\n",
            "doctor\n",
            "curl http://127.0.0.1:8787/openapi.json\n",
        ] {
            assert!(text.contains(shown), "{shown} is missing in {text}");
        }
        let database = Location::Database("postgres://me:secret@h/d".into());
        let (addresses, link) = ((Scheme::Http, at(1, Some(2))), Login::Link("CODE".into()));
        let text = greeting("steadfast", &database, addresses, &link);
        assert!(text.contains("http://127.0.0.1:1/login#CODE\n"), "{text}");
        // It would be refused without a credential.
        assert!(text.contains("whoami --server") && !text.contains("curl"), "{text}");
        assert!(text.contains("access       closed: admin.token in the data folder"), "{text}");
        assert!(text.contains("S3 API       http://127.0.0.1:2/\n"), "{text}");
        assert!(text.contains("postgres://me:***@h/d (PostgreSQL)"), "{text}");
        assert!(text.contains("doctor --server http://127.0.0.1:1\n") && !text.contains("secret"));
        let text =
            greeting("steadfast", &database, (Scheme::Https, at(1, Some(2))), &Login::Closed);
        assert!(text.contains("S3 API       https://127.0.0.1:2/\n"), "{text}");
        assert!(text.contains("doctor --server https://127.0.0.1:1\n"), "{text}");
    }
}
