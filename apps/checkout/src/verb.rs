//! The verb `example checkout`: a stream to watch while it fills, and to kill in the middle.

mod view;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use steadfast_core::{
    Dispatcher, DispatcherOptions, Error, Result,
    process::Processes,
    store::{
        Address, Clock, EntityKind, Recorded, SqliteOptions, SqliteStore, State, Store, SystemClock,
    },
};

use self::view::View;
use crate::{GroupCheckout, Hotel, group_checkout::Input};

/// Run an example
#[derive(Clone, Debug, Args)]
pub(crate) struct ExampleArgs {
    #[command(subcommand)]
    verb: ExampleVerb,
}

/// The examples.
#[derive(Clone, Debug, Subcommand)]
enum ExampleVerb {
    /// Check out a group of guests; kill the process and run it again to see it recover
    #[command(after_help = HELP)]
    Checkout(CheckoutArgs),
}

/// Where it runs.
#[derive(Clone, Debug, Args)]
struct CheckoutArgs {
    /// Data folder of the example; created if it does not exist
    #[arg(long, env = "STEADFAST_EXAMPLE_DATA", default_value = "./example-checkout")]
    data: PathBuf,
}

const HELP: &str = "\
Examples:
  steadfast example checkout
  timeout -s KILL 2 steadfast example checkout; steadfast example checkout";

const PROCESS: &str = "group-checkout";
const GUESTS: [&str; 4] = ["ada", "grace", "edsger", "barbara"];
const UNPAID: &str = "edsger";

/// One guest after the other takes so long: long enough to see, and to kill it meanwhile.
const DELAY: Duration = Duration::from_millis(650);

/// How often the stream is looked at.
const LOOK: Duration = Duration::from_millis(40);

/// Messages that are shown; such a stream has 14.
const ROWS_MAX: usize = 1_000;

/// Runs the example.
pub(crate) fn run_example(args: ExampleArgs) -> Result<ExitCode> {
    let ExampleVerb::Checkout(CheckoutArgs { data }) = args.verb;
    let folder = std::path::absolute(data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let options = SqliteOptions::new(&folder, clock.clone());
        let opened = tokio::task::spawn_blocking(|| SqliteStore::open(options)).await?;
        let store: Arc<dyn Store> = Arc::new(opened?);
        let result = run(store.clone(), clock, &folder.display().to_string()).await;
        store.close().await;
        result
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn run(store: Arc<dyn Store>, clock: Arc<dyn Clock>, place: &str) -> Result<()> {
    let hotel = Hotel::new(clock.clone()).taking(DELAY).unpaid([UNPAID]);
    let processes = Processes::new(store.clone()).with::<GroupCheckout>(hotel);
    let mut view = View::new();
    let checkout = match find_open(store.as_ref()).await? {
        Some(checkout) => {
            view.say(&format!("{checkout} is in progress in {place} and continues.\n\n"))?;
            checkout
        }
        None => {
            let checkout = begin(&processes, clock.as_ref()).await?;
            view.say(&format!("{checkout} begins in {place}.\n"))?;
            view.say(
                "Kill the process and run it again: the checkout continues where it was.\n\n",
            )?;
            checkout
        }
    };
    // One guest at a time is easier to watch.
    let options = DispatcherOptions { concurrency_per_target: 1, ..DispatcherOptions::default() };
    let dispatcher = Dispatcher::builder(store.clone()).route(processes).options(options);
    let dispatcher = dispatcher.start().await?;
    let watched = watch(store.as_ref(), clock.as_ref(), &checkout, &mut view).await;
    dispatcher.stop().await;
    watched
}

/// An open checkout whose guests are still to be checked out.
async fn find_open(store: &dyn Store) -> Result<Option<Address>> {
    let mut after = None;
    loop {
        let within = Some((EntityKind::Process, PROCESS));
        let page = store.streams(within, after.as_ref(), ROWS_MAX).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.address.clone());
        for stream in page.into_iter().filter(|it| it.closed_at.is_none()) {
            let pending = store.pending(Some(stream.address.id()), 0, ROWS_MAX).await?;
            if pending.iter().any(is_sent) {
                return Ok(Some(stream.address));
            }
        }
    }
}

async fn begin(processes: &Processes, clock: &dyn Clock) -> Result<Address> {
    let now = clock.now().0;
    let name = format!("example-{now}");
    let input = Input::InitiateGroupCheckout {
        group_checkout_id: name.clone(),
        clerk_id: "clerk".into(),
        guest_stay_account_ids: GUESTS.map(String::from).to_vec(),
        now,
    };
    processes.input::<GroupCheckout>(&input, None).await?;
    Ok(Address::new(EntityKind::Process, PROCESS, &name)?)
}

/// Shows the stream until it ends.
async fn watch(
    store: &dyn Store,
    clock: &dyn Clock,
    checkout: &Address,
    view: &mut View,
) -> Result<()> {
    loop {
        let stream = store.read_stream(checkout.id(), 1, ROWS_MAX).await?;
        view.show(&stream)?;
        if stream.iter().any(|it| it.action == "complete") {
            return view.finish(&stream);
        }
        if !stream.iter().any(|it| is_sent(it) && is_open(it)) {
            return Err(Error::terminal(format!(
                "{checkout} waits for an answer that nobody is asked for any more; \
                 see `steadfast streams show {checkout}` with the --data of the example"
            )));
        }
        clock.sleep(LOOK).await;
    }
}

fn is_sent(message: &Recorded) -> bool {
    message.action == "send"
}

/// Whether it is still to be executed. The last guest is done in the commit that ends the checkout.
fn is_open(message: &Recorded) -> bool {
    matches!(message.state, Some(State::Pending { .. } | State::InFlight { .. }))
}
