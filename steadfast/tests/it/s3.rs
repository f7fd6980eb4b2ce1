//! The S3 API with common, unmodified clients: boto3, awscli, rclone, s3cmd, and the SDK for
//! JavaScript.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Server, assert_fails_with, run, stdout};

/// Runs the script of a client against a server with a new key, if clients are installed: `./test`
/// says where, or that there are none.
fn try_with(client: &str) {
    let Some(bin) = std::env::var_os("STEADFAST_TEST_S3_CLIENTS") else {
        eprintln!(
            "skipped: STEADFAST_TEST_S3_CLIENTS names no clients; `tests/s3-clients` gets them"
        );
        return;
    };
    let server = Server::empty();
    let key: Value = serde_json::from_str(&stdout(&server.ask(&["keys", "create", "--json"])))
        .expect("a key is JSON");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/s3-clients");
    let output = Command::new(script)
        .args(["run", client])
        .env("STEADFAST_TEST_S3_CLIENTS", bin)
        .env("AWS_ENDPOINT_URL", server.s3_url())
        .env("AWS_ACCESS_KEY_ID", key["accessKeyId"].as_str().expect("an id"))
        .env("AWS_SECRET_ACCESS_KEY", key["secretAccessKey"].as_str().expect("a secret"))
        .stdin(Stdio::null())
        .output()
        .expect("the script runs");
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    eprintln!("{}", said.concat());
    assert!(output.status.success(), "some claims do not hold, see above");
}

#[test]
fn the_claims_of_boto3_hold() {
    try_with("boto3");
}

#[test]
fn the_claims_of_awscli_hold() {
    try_with("awscli");
}

#[test]
fn the_claims_of_rclone_hold() {
    try_with("rclone");
}

#[test]
fn the_claims_of_s3cmd_hold() {
    try_with("s3cmd");
}

#[test]
fn the_claims_of_javascript_hold() {
    try_with("js");
}

#[test]
fn the_s3_port_can_be_off_and_is_for_this_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(folder, &["--s3-listen", "none"]);
    assert!(!server.greeting.contains("S3"), "{}", server.greeting);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let open = ["--listen", "127.0.0.1:0", "--s3-listen", "0.0.0.0:0", "--data", data];
    assert_fails_with(&run(&open), &["--s3-listen 0.0.0.0:0", "127.0.0.1"]);
    let other = Server::empty();
    let taken = other.s3_url().trim_start_matches("http://");
    let args = ["--listen", "127.0.0.1:0", "--s3-listen", taken, "--data", data];
    assert_fails_with(&run(&args), &["--s3-listen", taken]);
}
