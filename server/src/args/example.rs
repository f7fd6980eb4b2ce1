//! Verbs that run an example.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples;

/// The examples.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ExampleVerb {
    /// Checks out a group of guests; kill it in the middle and run it again
    #[command(after_help = examples::CHECKOUT)]
    Checkout(CheckoutArgs),
}

/// Where it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckoutArgs {
    /// Data folder of the example; it is made if it is not there
    #[arg(long, env = "STEADFAST_EXAMPLE_DATA", default_value = "./example-checkout")]
    pub(crate) data: PathBuf,
}
