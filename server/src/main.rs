//! The `steadfast` binary: serves a store over HTTP, and asks one from the command line.

mod api;
mod app;
mod args;
mod budget;
mod catalog;
mod classifier;
mod cli;
mod connector;
mod doctor;
mod drift;
mod envelope;
mod escape;
mod example;
mod failure;
mod generations;
mod guard;
mod listener;
mod live;
mod logging;
mod metrics;
mod models;
mod node;
mod open;
mod open_files;
mod pages;
mod place;
mod ports;
mod request_id;
mod s3;
mod serve;
mod signals;
mod waterfall;

use std::{io::Write, process::ExitCode};

use self::{
    args::{ExampleVerb, ModelsVerb, Verb},
    failure::Failure,
};

/// Threads free here what others have taken, all the time. With the allocator of glibc that makes
/// them wait for each other. SQLite goes on using that one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match args::parse() {
        Verb::Serve(args) => serve::run(*args),
        Verb::Ask(ask, source) => cli::run(ask, source),
        Verb::Models(ModelsVerb::Pull(args)) => models::run(&args),
        Verb::Drift(args, source) => return cli::compare(&args, source),
        Verb::Example(ExampleVerb::Checkout(args)) => example::checkout(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Quiet) => ExitCode::FAILURE,
        Err(Failure::Told(text)) => {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {text}");
            ExitCode::FAILURE
        }
    }
}
