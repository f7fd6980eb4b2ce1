//! Serves a program: HTTP API, console, S3 port, metrics, and the command line. It knows no
//! application; applications add their parts to their `App` (see `steadfast_web::Serve`).

mod access;
mod app;
mod args;
mod budget;
mod cli;
mod command;
mod doctor;
mod envelope;
mod facts;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod history;
pub mod http;
mod list;
mod listener;
mod live;
mod location;
mod metrics;
mod network;
mod nouns;
mod open;
mod operation;
mod pages;
mod path;
mod pipeline;
mod ports;
mod process;
mod s3;
mod secret_file;
mod serve;
mod server;
mod settings;
mod transport;
mod waiting;
mod waterfall;

pub use self::{
    command::main,
    settings::{Flag, Program},
};
