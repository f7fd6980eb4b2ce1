//! Settings: the providers, and how long they may take.

use std::{sync::Arc, time::Duration};

use clap::Args;
use steadfast_core::{Error, Result, store::Secret};
use steadfast_egress::Network;
use steadfast_images::Pool;
use steadfast_web::Number;

use crate::{
    ProvidersOptions,
    providers::{Delivery, Embedded, Provider, Reconcile, Runware, RunwareOptions},
};

/// How a task of Runware is found whose answer was lost.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum RunwareReconcile {
    // By `getResponse`. What stands here as documentation would be shown by `--help`.
    Response,
    // By `getTaskDetails`.
    Details,
}

/// Providers of pictures and clips, and their time limits.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Key of Runware; prefer the variable. Without a key only the embedded models are available
    #[arg(long, value_name = "KEY")]
    pub(crate) generations_runware_key: Option<Secret>,
    /// URL of Runware
    #[arg(long, value_name = "URL")]
    pub(crate) generations_runware_url: Option<String>,
    /// How to find a task whose response was lost: `response` uses the documented API and delivers
    /// images asynchronously, `details` uses an undocumented API and delivers them synchronously
    #[arg(long, value_name = "HOW", default_value = "response")]
    pub(crate) generations_runware_reconcile: RunwareReconcile,
    /// Private networks from which outputs of Runware may be downloaded
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    pub(crate) generations_output_networks: Vec<Network>,
    /// URL by which providers reach the webhooks; by default `--public-url`. Without either the
    /// server polls them
    #[arg(long, value_name = "URL")]
    pub(crate) generations_public_url: Option<String>,
    /// Timeout of an image, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(crate) generations_image_timeout: Number<1, 86_400>,
    /// Timeout of a video, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub(crate) generations_video_timeout: Number<1, 86_400>,
    /// Maximum concurrent requests to one provider
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) generations_provider_requests: Number<1, 1_000>,
}

/// Providers with their limits, and why one of them is left out.
type Chosen = (Vec<Arc<dyn Provider>>, ProvidersOptions, Option<Error>);

/// The providers to ask: the embedded one, and Runware if there is a key. If Runware cannot
/// be made, it is left out, and the error says why.
pub(crate) fn providers(args: &Settings) -> Result<Chosen> {
    let public_url = args.generations_public_url.as_deref();
    let at_once = args.generations_provider_requests.to_usize();
    let options = ProvidersOptions {
        public_url: public_url.map(|it| it.trim_end_matches('/').to_owned()),
        image_timeout: Duration::from_secs(args.generations_image_timeout.get().into()),
        video_timeout: Duration::from_secs(args.generations_video_timeout.get().into()),
        at_once,
        ..ProvidersOptions::default()
    };
    let pool = Pool::for_this_machine("generate").map_err(Error::terminal)?;
    let mut providers: Vec<Arc<dyn Provider>> = vec![Arc::new(Embedded::new(pool))];
    let mut error = None;
    if let Some(key) = &args.generations_runware_key {
        let mut options = RunwareOptions::new(key.expose());
        // Its own limits must not be narrower than what was asked for.
        options.concurrent = at_once;
        options.fetch.concurrent = at_once.clamp(8, 64);
        (options.reconcile, options.image_delivery) = match args.generations_runware_reconcile {
            RunwareReconcile::Response => (Reconcile::Response, Delivery::Async),
            RunwareReconcile::Details => (Reconcile::Details, Delivery::Sync),
        };
        if let Some(url) = &args.generations_runware_url {
            options.base_url.clone_from(url);
        }
        if !args.generations_output_networks.is_empty() {
            // An operator with a gateway of their own knows its names.
            options.fetch.hosts.clear();
            options.fetch.private.clone_from(&args.generations_output_networks);
        }
        match Runware::new(options) {
            Ok(runware) => providers.push(Arc::new(runware)),
            Err(failed) => error = Some(Error::terminal(failed)),
        }
    }
    Ok((providers, options, error))
}
