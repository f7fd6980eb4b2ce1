//! The fixture of the current format: stores whose server was killed at work. This version opens
//! them and continues the work.
//!
//! `tests/fixtures/make` writes them with a wall clock that shows January 2026. Before the first
//! release it writes them again when the number of the format rises; no other format is read.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod apps;
mod at_writing;
mod blobs;
mod load;
mod objects;
mod queues;
mod runs;

use std::time::Duration;

use serde_json::Value;
use steadfast_store::BASELINE_FORMAT;

use self::load::Fixture;
use crate::{harness::Server, seed};

/// Bounds a test whose work would never settle.
const TIME_MAX: Duration = Duration::from_mins(3);

#[test]
fn the_fixture_has_the_current_format() {
    let advice = "write it again with tests/fixtures/make";
    assert_eq!(load::facts()["format"], BASELINE_FORMAT, "{advice}");
}

#[test]
fn a_sqlite_folder_of_this_format_is_opened_and_its_work_continues() {
    continue_today(Fixture::sqlite());
}

#[test]
fn a_postgres_database_of_this_format_is_opened_and_its_work_continues() {
    continue_today(Fixture::postgres());
}

#[test]
fn keys_leases_and_timers_in_a_sqlite_folder_expire_on_time() {
    continue_at_writing(Fixture::sqlite());
}

#[test]
fn keys_leases_and_timers_in_a_postgres_database_expire_on_time() {
    continue_at_writing(Fixture::postgres());
}

/// Continues a fixture with the real binary and the real time, when everything in it is overdue.
fn continue_today(fixture: Fixture) {
    let mut opened = fixture.serve();
    let (server, facts) = (&opened.server, &opened.facts);
    // These read rows whose retention has ended. The server sweeps for the first time one minute
    // after its start.
    objects::check_history(server);
    runs::check_ended(server);
    blobs::check_deleted(server);
    runs::continue_runs(server);
    runs::continue_processes(server);
    objects::check_alarms(server, facts);
    objects::continue_objects(server, facts);
    queues::check_settings(server);
    queues::continue_pulled(server, facts);
    queues::continue_consumed(server, facts);
    blobs::check_blobs(server, facts);
    blobs::check_access(server, facts);
    apps::continue_uploads(server, facts);
    apps::continue_generations(server, facts);
    apps::continue_comparisons(server, facts);
    check_doctor(server);
    opened = opened.restart();
    objects::check_continued(&opened.server);
    runs::check_continued(&opened.server);
    check_doctor(&opened.server);
}

/// Continues a fixture with the library and a clock that starts at the time of writing.
fn continue_at_writing(fixture: Fixture) {
    let work = Box::pin(at_writing::continue_work(fixture));
    let ended = seed::block_on(async { tokio::time::timeout(TIME_MAX, work).await });
    ended.expect("the work ends in time");
}

/// All invariants hold, and something wakes all pending work.
#[track_caller]
fn check_doctor(server: &Server) {
    let doctor = server.json("/v1/doctor");
    assert_eq!(doctor["ok"], true, "{doctor}");
    for name in ["store", "invariants", "wake-ups"] {
        let checks = doctor["checks"].as_array().expect("checks");
        let check = checks.iter().find(|it| it["name"] == name).expect("a check of this name");
        assert_eq!(check["status"], "ok", "{check}");
    }
}

/// One field of every item in a list.
fn column(list: &Value, name: &str) -> Vec<Value> {
    list.as_array().expect("a list").iter().map(|it| it[name].clone()).collect()
}
