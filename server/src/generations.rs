//! The providers of the application generations, as the command line says.

use std::time::Duration;

use steadfast_ai::{
    classify::Pool,
    generate::{Delivery, Embedded, Providers, Reconcile, Runware, RunwareOptions},
};
use steadfast_generations::StudioOptions;

use crate::{
    args::{GenerationArgs, RunwareReconcile},
    failure::Failure,
};

/// The providers that there are: the embedded one, and Runware if there is a key.
pub(crate) fn providers(args: &GenerationArgs) -> Result<(Providers, StudioOptions), Failure> {
    let options = StudioOptions {
        public_url: args.public_url.as_deref().map(|it| it.trim_end_matches('/').to_owned()),
        image_timeout: Duration::from_secs(args.image_timeout.into()),
        video_timeout: Duration::from_secs(args.video_timeout.into()),
        at_once: args.provider_requests.into(),
        ..StudioOptions::default()
    };
    let mut providers = embedded()?;
    if let Some(key) = &args.runware_key {
        let mut options = RunwareOptions::new(key);
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
            // Who has a gateway of their own knows its names.
            options.fetch.hosts.clear();
            options.fetch.private.clone_from(&args.output_networks);
        }
        let runware = Runware::new(options).map_err(|it| Failure::new(it.to_string()))?;
        providers = providers.with(runware);
    }
    Ok((providers, options))
}

/// Where only questions are asked, nothing is made but by the embedded provider.
pub(crate) fn small() -> Result<(Providers, StudioOptions), Failure> {
    Ok((embedded()?, StudioOptions::default()))
}

fn embedded() -> Result<Providers, Failure> {
    let pool = Pool::for_this_machine("generate").map_err(|it| Failure::new(it.to_string()))?;
    Ok(Providers::new().with(Embedded::new(pool)))
}
