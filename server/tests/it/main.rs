//! What a user can see: the real binary on a free port, asked over HTTP and from the command line.

mod api;
mod browser;
mod chat_browser;
mod chat_pages;
mod cli;
mod cluster;
mod example;
mod guard;
mod harness;
mod life;
mod live;
mod live_ends;
mod object_cli;
mod object_messages;
mod object_pages;
mod object_views;
mod objects;
mod outage;
mod pages;
mod process_pages;
mod processes;
mod revive;
mod run_cli;
mod run_live;
mod runs;
mod seed;
