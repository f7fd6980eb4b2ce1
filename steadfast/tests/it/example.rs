//! The example, run to its end and killed in between.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::harness::{Server, output, spawn, stderr, stdout, steadfast};

fn example(folder: &std::path::Path) -> Command {
    let mut command = steadfast();
    command.args(["example", "checkout", "--data"]).arg(folder);
    command
}

/// The rows of the table that it prints at the end.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let (_, end) = text.split_once("The stream when it ended:").expect("it ends with the stream");
    let lines = end.lines().map(|it| it.split_whitespace().collect::<Vec<_>>());
    lines.filter(|it| it.len() == 6 && it[0].parse::<u32>().is_ok()).collect()
}

fn assert_whole(text: &str) {
    let rows = rows(text);
    let types: Vec<&str> = rows.iter().map(|it| it[3]).collect();
    assert_eq!(types.len(), 14, "{text}");
    assert_eq!(types[1..4], ["InitiateGroupCheckout", "GroupCheckoutInitiated", "CheckOut"]);
    assert_eq!(types[12..], ["GroupCheckoutFailed", "Completed"]);
    assert_eq!(types.iter().filter(|it| **it == "GuestCheckedOut").count(), 3, "{text}");
    assert!(rows[3..7].iter().all(|it| it[4] == "yes" && it[5].contains(':')), "{text}");
    assert_eq!(rows[7][3..5], ["TimeoutGroupCheckout", "cancelled"]);
}

fn name(text: &str) -> &str {
    text.split_whitespace().next().expect("it begins with the name")
}

#[test]
fn the_example_continues_after_a_kill_and_then_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn(example(folder.path()).stdout(Stdio::piped()));
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("GuestCheckedOut") {
        assert!(0 < printed.read_line(&mut text).unwrap(), "it ended early: {text}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    printed.read_to_string(&mut text).unwrap();
    assert!(!text.contains("GroupCheckoutFailed"), "it was too late to kill it: {text}");

    let second = output(&mut example(folder.path()));
    assert!(second.status.success(), "{}", stderr(&second));
    let second = stdout(&second);
    assert_eq!(name(&second), name(&text), "it is the same checkout");
    assert!(second.contains("is in progress"), "{second}");
    assert_whole(&second);

    let third = output(&mut example(folder.path()));
    assert!(third.status.success(), "{}", stderr(&third));
    let third = stdout(&third);
    assert_ne!(name(&third), name(&second), "it is a new one");
    assert_whole(&third);
}

#[test]
fn the_example_has_its_own_folder_next_to_a_server() {
    let server = Server::on(tempfile::tempdir().unwrap());
    let here = tempfile::tempdir().unwrap();
    let mut command = steadfast();
    command.args(["example", "checkout"]).current_dir(here.path());
    let done = output(command.env("STEADFAST_DATA", server.folder()));
    assert!(done.status.success(), "{}", stderr(&done));
    assert_whole(&stdout(&done));
    assert!(here.path().join("example-checkout/steadfast.db").is_file());
}
