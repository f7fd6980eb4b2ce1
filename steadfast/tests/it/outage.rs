//! A store that becomes unavailable and returns.

use crate::{
    cluster::Cluster,
    harness::{Answer, Server, until},
};

const PATH: &str = "/v1/objects/counter/a/calls/increment";

fn increment(server: &Server, key: &str) -> Answer {
    server.post_json(PATH, r#"{"by": 1}"#, &[("idempotency-key", key)])
}

#[test]
fn an_outage_of_the_store_is_reported_and_ends_without_a_restart() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(folder, &["--store", &cluster.url]);
    assert_eq!(increment(&server, "k-1").body, "1");
    cluster.stop();
    for key in ["k-2", "k-3", "k-4"] {
        let answer = increment(&server, key);
        answer.assert_problem(503, "store_unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.json()["retryable"], true);
    }
    // An object that is not in memory cannot be read either.
    let path = "/v1/objects/counter/b/calls/read";
    server.post(path, &[]).assert_problem(503, "store_unavailable");
    assert_eq!(server.get("/readyz").status, 503);
    cluster.start_again();
    let mut answer = increment(&server, "k-2");
    until("the store is back", || {
        if answer.status != 200 {
            answer.assert_problem(503, "store_unavailable");
            answer = increment(&server, "k-2");
        }
        answer.status == 200
    });
    assert_eq!((answer.status, answer.body.as_str()), (200, "2"));
    assert_eq!(increment(&server, "k-1").body, "1", "keys survive as well");
    assert_eq!(server.post(path, &[]).body, "0");
}
