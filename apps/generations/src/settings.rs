//! Settings: the providers, and how long they may take.

use std::{sync::Arc, time::Duration};

use clap::Args;
use steadfast_core::{Error, Result, store::Secret};
use steadfast_egress::Network;
use steadfast_images::Pool;

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
    #[arg(long = "generations-runware-key", value_name = "KEY", hide_env_values = true)]
    pub(crate) runware_key: Option<Secret>,
    /// URL of Runware
    #[arg(long = "generations-runware-url", value_name = "URL")]
    pub(crate) runware_url: Option<String>,
    /// How to find a task whose response was lost: `response` uses the documented API and delivers
    /// images asynchronously, `details` uses an undocumented API and delivers them synchronously
    #[arg(
        long = "generations-runware-reconcile",
        value_name = "HOW",
        value_enum,
        default_value = "response"
    )]
    pub(crate) runware_reconcile: RunwareReconcile,
    /// Private networks from which outputs of Runware may be downloaded
    #[arg(long = "generations-output-networks", value_name = "NETWORK,…", value_delimiter = ',')]
    pub(crate) output_networks: Vec<Network>,
    /// URL by which providers reach the webhooks; by default `--public-url`. Without either the
    /// server polls them
    #[arg(long = "generations-public-url", value_name = "URL")]
    pub(crate) generations_public_url: Option<String>,
    /// Timeout of an image, in seconds
    #[arg(
        long = "generations-image-timeout",
        value_name = "SECONDS",
        default_value = "300",
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub(crate) image_timeout: u32,
    /// Timeout of a video, in seconds
    #[arg(
        long = "generations-video-timeout",
        value_name = "SECONDS",
        default_value = "600",
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub(crate) video_timeout: u32,
    /// Maximum concurrent requests to one provider
    #[arg(
        long = "generations-provider-requests",
        value_name = "N",
        default_value = "16",
        value_parser = clap::value_parser!(u16).range(1..=1_000)
    )]
    pub(crate) provider_requests: u16,
}

/// Providers with their limits, and why one of them is left out.
type Chosen = (Vec<Arc<dyn Provider>>, ProvidersOptions, Option<Error>);

/// The providers to ask: the embedded one, and Runware if there is a key. If Runware cannot
/// be made, it is left out, and the error says why.
pub(crate) fn providers(args: &Settings) -> Result<Chosen> {
    let options = ProvidersOptions {
        public_url: args
            .generations_public_url
            .as_deref()
            .map(|it| it.trim_end_matches('/').to_owned()),
        image_timeout: Duration::from_secs(args.image_timeout.into()),
        video_timeout: Duration::from_secs(args.video_timeout.into()),
        at_once: args.provider_requests.into(),
        ..ProvidersOptions::default()
    };
    let pool = Pool::for_this_machine("generate").map_err(Error::terminal)?;
    let mut providers: Vec<Arc<dyn Provider>> = vec![Arc::new(Embedded::new(pool))];
    let mut error = None;
    if let Some(key) = &args.runware_key {
        let mut options = RunwareOptions::new(key.expose());
        // Its own limits must not be narrower than what was asked for.
        options.concurrent = args.provider_requests.into();
        options.fetch.concurrent = options.concurrent.clamp(8, 64);
        (options.reconcile, options.image_delivery) = match args.runware_reconcile {
            RunwareReconcile::Response => (Reconcile::Response, Delivery::Async),
            RunwareReconcile::Details => (Reconcile::Details, Delivery::Sync),
        };
        if let Some(url) = &args.runware_url {
            options.base_url.clone_from(url);
        }
        if !args.output_networks.is_empty() {
            // An operator with a gateway of their own knows its names.
            options.fetch.hosts.clear();
            options.fetch.private.clone_from(&args.output_networks);
        }
        match Runware::new(options) {
            Ok(runware) => providers.push(Arc::new(runware)),
            Err(failed) => error = Some(Error::terminal(failed)),
        }
    }
    Ok((providers, options, error))
}
