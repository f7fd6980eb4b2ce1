//! AI media jobs, and the library of their artifacts.
//!
//! Somebody asks for pictures or clips and gets an id at once. A [`GenerationManager`], one object
//! for each request, has a provider make them, one task for each, and watches over it: it is
//! transient plumbing. What matters are the artifacts: they go into the bucket [`ARTIFACTS`] and
//! into the [`Library`] of the workspace as they are made, and stay there.
//!
//! A task has the id that its provider gets before the provider is asked, and an artifact the id
//! of its place in the request: whatever is tried again after a crash, nothing is paid for or kept
//! twice.

pub mod http;
mod ids;
mod jobs;
mod library;
mod manager;
mod orphans;
pub mod providers;
mod settings;
mod task;
mod view;
mod wire;

use std::sync::Arc;

use steadfast_core::{
    App, Bucket, Error, Places, Result,
    store::{SeededEntropy, SystemClock},
};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::Serve;

use self::providers::Provider;
pub use self::{
    ids::{DEFAULT_WORKSPACE, WORKSPACE_MAX, is_workspace, new_id},
    jobs::{
        AtProvider, CountCost, Discard, Fetch, FetchHere, Fetched, Poll, Progress, Record, Submit,
        SubmitHere, Taken,
    },
    library::{
        Changed, DeleteArtifact, DeleteGeneration, GenerationChanged, GetArtifact, GetGeneration,
        Library, ListArtifacts, ListGenerations, ListTags, Narrow, ReserveId, SetTag, TAG_MAX,
        TAGS_MAX, TagCount, TagTarget, Unreferred, is_tag,
    },
    manager::GenerationManager,
    orphans::{FindOrphans, FoundOrphans, OrphanSweep, StartSweep, SweepPage},
    providers::{ArtifactBucket, Providers, ProvidersOptions},
    settings::Settings,
    task::{Made, TaskError, TaskState, TaskView, artifact_id, task_id},
    view::{Artifact, Counts, Generation, GenerationStatus, Request},
    wire::{
        AskAgain, AskLate, Begin, Begun, Cancel, Confirm, Create, Delete, DiscardAgain, FetchAgain,
        Forget, GenerationMessage, GetState, GetWord, LibraryChanged, LibraryHeard, Retry,
        RetryUnpaid, SubmitAgain, TimeOut, Webhook,
    },
};

/// The points of a generation at which a test may end the process. Those of the platform are
/// between them.
pub const GENERATION_CRASH_POINTS: &[&str] = &[
    "generation.created",
    "generation.submit.before",
    "generation.submit.after",
    "generation.webhook.before",
    "generation.webhook.after",
    "generation.fetch.before",
    "generation.fetch.half",
    "generation.fetch.after",
    "generation.library.written",
];

/// The bytes of artifacts: see [`blob_key`].
pub const ARTIFACTS: Bucket = Bucket::named("generations");

/// Where the bytes of an artifact are. The key begins with the workspace, which is the organization
/// whose quota counts them; the default workspace is no organization.
pub fn blob_key(workspace: &str, artifact: &str) -> String {
    match workspace {
        DEFAULT_WORKSPACE => format!("artifacts/{artifact}"),
        _ => format!("{workspace}/artifacts/{artifact}"),
    }
}

/// The application, with the providers that the settings name.
pub fn app(settings: Settings) -> Result<App> {
    let (providers, options, error) = settings::providers(&settings)?;
    let pool = Pool::for_this_machine("pictures").map_err(Error::terminal)?;
    let app = with_providers(providers, options, (ImageLimits::default(), pool));
    Ok(app.before_work(move || error.clone().map_or(Ok(()), Err)))
}

/// Images that are scaled at a time.
const SCALED_MAX: usize = 4;

/// The application, with these providers. Threads of the pool make small copies of pictures.
pub fn with_providers(
    providers: Vec<Arc<dyn Provider>>,
    options: ProvidersOptions,
    (limits, pool): (ImageLimits, Pool),
) -> App {
    let app = App::new("generations");
    let (bucket, managers) = (app.client(), app.client());
    let bucket: ArtifactBucket = Arc::new(move || bucket.bucket(ARTIFACTS));
    let providers = Arc::new(Providers::new(providers, options, bucket));
    providers.connect(move || managers.runtime().map(|it| it.objects().clone()));
    let sealed = providers.clone();
    let places = Arc::new(Places::new(SCALED_MAX));
    with_jobs(app, &providers)
        .on_open(move |program| sealed.seal_with(program.seal().clone()))
        .object(Library)
        .page("Generations", "/generations", "ask for pictures, and keep what was made")
        .routes_with("", http::routes, move |served| http::Site {
            objects: served.runtime.objects().clone(),
            artifacts: served.runtime.bucket(ARTIFACTS),
            webhooks: providers.webhooks().or_else(|| served.public_url.clone()),
            providers: providers.clone(),
            connect: served.connect.clone(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SeededEntropy::from_system()),
            pool: pool.clone(),
            places: places.clone(),
            limits: limits.clone(),
            copies: Copies::default(),
        })
}

/// Adds the managers, and the jobs that the providers perform.
pub fn with_jobs(app: App, providers: &Arc<Providers>) -> App {
    app.bucket(ARTIFACTS)
        .object(GenerationManager { providers: providers.clone() })
        .perform::<Submit>(providers.clone())
        .perform::<SubmitHere>(providers.clone())
        .perform::<Poll>(providers.clone())
        .perform::<Fetch>(providers.clone())
        .perform::<FetchHere>(providers.clone())
        .perform::<Record>(providers.clone())
        .perform::<Discard>(providers.clone())
        .perform::<CountCost>(providers.clone())
        .perform::<FindOrphans>(providers.clone())
        .object(OrphanSweep)
}
