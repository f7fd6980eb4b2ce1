//! The shipped server: three applications, and smaller ones to look at.

mod new;

use std::process::ExitCode;

use steadfast::{App, Result, web::Serve};

/// Threads free here what others have taken, all the time. With the allocator of glibc that makes
/// them wait for each other. SQLite goes on using that one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app(
    uploads: steadfast_uploads::Settings,
    generations: steadfast_generations::Settings,
    drift: steadfast_drift::Settings,
) -> Result<App> {
    Ok(App::new("steadfast")
        .verb("new", |_, args| new::run(&args))
        .merge(steadfast_counter::app())
        .merge(steadfast_chat::app())
        .merge(steadfast_order::app())
        .merge(steadfast_mail::app())
        .merge(steadfast_checkout::app())
        .merge(steadfast_drift::app(drift)?)
        .merge(steadfast_generations::app(generations)?)
        .merge(steadfast_uploads::app(uploads)?))
}
