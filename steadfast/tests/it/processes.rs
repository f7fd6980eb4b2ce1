//! Processes over HTTP and from the command line.

use serde_json::{Value, json};

use crate::harness::{Answer, Server, assert_fails_with, assert_usage_error, run, stderr, stdout};

fn server() -> Server {
    Server::empty()
}

fn initiate(group: &str, guests: &[&str]) -> Value {
    json!({"type": "InitiateGroupCheckout", "data": {
        "groupCheckoutId": group, "clerkId": "c", "guestStayAccountIds": guests, "now": 1,
    }})
}

fn report(id: &str, offense: &Value) -> Value {
    json!({"type": "PoliceReportPublished", "data": {"policeReportId": id, "offense": offense}})
}

fn speeding() -> Value {
    json!({"speedingViolation": {"maximumSpeed": "50km/h"}})
}

fn send(server: &Server, path: &str, input: &Value, key: Option<&str>) -> Answer {
    let headers: Vec<(&str, &str)> = key.map(|it| ("idempotency-key", it)).into_iter().collect();
    server.post_json(&format!("/v1/processes/{path}/inputs"), &input.to_string(), &headers)
}

fn column(instance: &Value, name: &str) -> Vec<String> {
    let items = instance["items"].as_array().expect("a list");
    items.iter().map(|it| it[name].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_input_gets_its_decision() {
    let server = server();
    let answer = send(&server, "group-checkout/g-1", &initiate("g-1", &["a", "b"]), None);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body = answer.json();
    assert_eq!((&body["position"], &body["ignored"]), (&json!(2), &json!(false)));
    assert_eq!(body.get("reply"), None);
    let outputs = body["outputs"].as_array().unwrap();
    let actions: Vec<&Value> = outputs.iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["publish", "send", "send", "schedule"]);
    assert_eq!(outputs[0]["type"], "GroupCheckoutInitiated");
    assert_eq!(outputs[1]["data"], json!({"guestStayAccountId": "a", "groupCheckoutId": "g-1"}));
}

#[test]
fn the_server_executes_commands_of_a_process() {
    let server = server();
    for (group, guests, end) in [
        ("g-1", &["a", "b"][..], "GroupCheckoutCompleted"),
        ("g-2", &["a", "unpaid"], "GroupCheckoutFailed"),
    ] {
        send(&server, &format!("group-checkout/{group}"), &initiate(group, guests), None);
        let path = format!("/v1/processes/group-checkout/{group}");
        let done = server.json_until(&path, |it| it["status"] == "completed");
        assert_eq!((&done["state"], &done["version"]), (&json!("Finished"), &json!(10)));
        assert_eq!(column(&done, "type")[8..], [end, "Completed"]);
        assert_eq!(column(&done, "state")[3..6], ["done", "done", "cancelled"]);
    }
    let doctor = server.json("/v1/doctor");
    let of = |name: &str| {
        let checks = doctor["checks"].as_array().unwrap();
        checks.iter().find(|it| it["name"] == name).unwrap()["status"].clone()
    };
    assert_eq!([of("wake-ups"), of("pending"), of("dead")], ["ok", "ok", "ok"]);
}

#[test]
fn events_of_a_group_are_on_the_notice_board_and_a_second_clerk_gets_a_reply() {
    let server = server();
    let path = "group-checkout/g-1";
    let first = send(&server, path, &initiate("g-1", &["a", "absent"]), None).json();
    assert_eq!(first.get("reply"), None, "{first}");
    let second = send(&server, path, &initiate("g-1", &["a", "absent"]), None).json();
    assert_eq!(second["reply"]["type"], "GroupCheckoutRejected", "{second}");
    assert_eq!(second["reply"]["data"]["reason"], "AlreadyInitiated", "{second}");
    send(&server, "group-checkout/g-2", &initiate("g-2", &["a"]), None);
    let board = "/v1/objects/notice-board/lobby/calls/notices";
    let types = || {
        let notices = server.post_json(board, "{}", &[]).json();
        let shown = |it: &Value| format!("{} {}", it["group"], it["type"]).replace('"', "");
        let mut all: Vec<String> = notices.as_array().unwrap().iter().map(shown).collect();
        all.sort();
        all
    };
    server.json_until("/v1/processes/group-checkout/g-2", |it| it["status"] == "completed");
    server.json_until("/v1/queues/checkout-news", |it| it["depth"] == 0);
    let expected =
        ["g-1 GroupCheckoutInitiated", "g-2 GroupCheckoutCompleted", "g-2 GroupCheckoutInitiated"];
    assert_eq!(types(), expected);
}

#[test]
fn a_speeding_report_becomes_a_fine_and_a_parking_one_does_not() {
    let server = server();
    assert_eq!(send(&server, "traffic-fine/r-1", &report("r-1", &speeding()), None).status, 200);
    let path = "/v1/processes/traffic-fine/r-1";
    let done = server.json_until(path, |it| it["status"] == "completed");
    assert!(column(&done, "type").contains(&"IssueTrafficFine".to_owned()), "{done}");
    let parking =
        send(&server, "traffic-fine/r-2", &report("r-2", &json!("parkingViolation")), None);
    assert_eq!(parking.json()["outputs"][0]["action"], "complete");
    let late = send(&server, "traffic-fine/r-2", &report("r-2", &speeding()), None);
    assert_eq!((late.status, &late.json()["ignored"]), (200, &json!(true)));
}

/// Asserts that a repetition gets the same bytes, at once and after the end.
#[track_caller]
fn assert_repeatable(server: &Server, path: &str, input: &Value) {
    let first = send(server, path, input, Some("k"));
    assert_eq!(first.status, 200, "{}", first.body);
    let again = send(server, path, input, Some("k"));
    assert_eq!((again.status, &again.body), (200, &first.body));
    let show = format!("/v1/processes/{path}");
    let done = server.json_until(&show, |it| it["status"] == "completed");
    let late = send(server, path, input, Some("k"));
    assert_eq!((late.status, &late.body), (200, &first.body));
    assert_eq!(server.json(&show)["version"], done["version"], "nothing was added");
}

#[test]
fn a_repetition_is_answered_where_a_new_input_would_be_refused() {
    let server = server();
    assert_repeatable(&server, "traffic-fine/r-1", &report("r-1", &speeding()));
}

#[test]
fn a_repetition_gets_the_same_bytes() {
    let server = server();
    assert_repeatable(&server, "group-checkout/g-1", &initiate("g-1", &["a"]));
    let other = initiate("g-1", &["b"]);
    send(&server, "group-checkout/g-1", &other, Some("k")).assert_problem(409, "key_reused");
}

#[test]
fn a_refused_input_names_its_reason() {
    let server = server();
    let good = initiate("g-1", &["a"]);
    let check = |path: &str, body: &Value, status: u16, code: &str| {
        let answer = send(&server, path, body, None);
        answer.assert_problem(status, code);
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    check("nonsense/g-1", &good, 404, "process_not_found");
    check("group-checkout/g-2", &good, 400, "invalid_input");
    let alone = json!({"type": "GuestCheckedOut", "data": {
        "guestStayAccountId": "a", "checkedOutAt": 1}});
    check("group-checkout/g-1", &alone, 400, "invalid_input");
    let unknown = json!({"type": "Nonsense", "data": {}});
    let detail = check("group-checkout/g-1", &unknown, 400, "malformed_message");
    assert!(detail.contains("InitiateGroupCheckout"), "{detail}");
    let missing = json!({"type": "InitiateGroupCheckout", "data": {"groupCheckoutId": "g-1"}});
    let detail = check("group-checkout/g-1", &missing, 400, "malformed_message");
    assert!(detail.contains("clerkId"), "{detail}");
    check("group-checkout/g-1", &json!({"typ": "X"}), 400, "bad_request");
    let early = json!({"type": "TrafficFineSystemNumberGenerated", "data": {
        "policeReportId": "r-1", "number": "n"}});
    let detail = check("traffic-fine/r-1", &early, 422, "refused");
    assert!(detail.contains("waits for a police report"), "{detail}");
    let path = "/v1/processes/group-checkout/g-1/inputs";
    server.post_json(path, "{\"type\":", &[]).assert_problem(400, "bad_request");
    server.post(path, &[("idempotency-key", "")]).assert_problem(400, "invalid_key");
    let long = "x".repeat(256);
    send(&server, "group-checkout/g-1", &good, Some(&long)).assert_problem(400, "invalid_key");
    assert_eq!(server.json("/v1/streams")["items"], json!([]), "nothing was recorded");
}

#[test]
fn processes_and_instances_are_listed() {
    let server = server();
    let names = server.json("/v1/processes");
    assert_eq!(names["items"], json!([{"name": "group-checkout"}, {"name": "traffic-fine"}]));
    for id in ["r-1", "r-2", "r-3"] {
        let input = report(id, &json!("parkingViolation"));
        send(&server, &format!("traffic-fine/{id}"), &input, None);
    }
    let ids = |path: &str| {
        let list = server.json(&format!("/v1/processes/traffic-fine{path}"));
        let items = list["items"].as_array().unwrap().clone();
        let ids = items.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        (ids, list["next"].as_str().map(str::to_owned))
    };
    assert_eq!(ids("").0, ["r-1", "r-2", "r-3"]);
    assert_eq!(ids("?status=completed").0, ["r-1", "r-2", "r-3"]);
    assert_eq!(ids("?status=open").0, [""; 0]);
    for filter in ["", "&status=completed"] {
        let (first, next) = ids(&format!("?limit=2{filter}"));
        assert_eq!(first, ["r-1", "r-2"]);
        let next = next.unwrap();
        assert_eq!(ids(&format!("?limit=2&cursor={next}{filter}")), (vec!["r-3".into()], None));
    }
    let one = &server.json("/v1/processes/traffic-fine")["items"][0];
    assert_eq!((&one["status"], &one["version"]), (&json!("completed"), &json!(3)));
    assert_eq!(one["address"], "process/traffic-fine/r-1");
    assert!(one["completedAt"].is_string() && one["createdAt"].is_string(), "{one}");
    server.get("/v1/processes/nonsense").assert_problem(404, "process_not_found");
    server.get("/v1/processes/nonsense/x").assert_problem(404, "process_not_found");
    server.get("/v1/processes/traffic-fine/r-9").assert_problem(404, "instance_not_found");
    server.get("/v1/processes/traffic-fine?status=x").assert_problem(400, "bad_request");
}

#[test]
fn an_id_may_be_any_text() {
    let server = server();
    let (id, escaped) = ("XG.96/ü?%", "XG.96%2F%C3%BC%3F%25");
    let input = report(id, &json!("parkingViolation"));
    let answer = send(&server, &format!("traffic-fine/{escaped}"), &input, None);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(server.json(&format!("/v1/processes/traffic-fine/{escaped}"))["id"], id);
    let shown = stdout(&server.ask(&["processes", "show", "traffic-fine", id]));
    assert!(shown.starts_with(&format!("process/traffic-fine/{id}  completed  3 ")), "{shown}");
    assert_eq!(server.get(&format!("/processes/traffic-fine/{escaped}")).status, 200);
}

#[test]
fn the_command_line_matches_http() {
    let server = server();
    let input = report("r-1", &json!("parkingViolation"));
    let data = input["data"].to_string();
    let mut verb = vec!["processes", "send", "traffic-fine", "r-1", "--type"];
    verb.extend(["PoliceReportPublished", "--body", &data, "--idempotency-key", "k"]);
    let plain = server.ask(&verb);
    assert!(plain.status.success(), "{}", stderr(&plain));
    let told = "recorded PoliceReportPublished as message 2 of traffic-fine/r-1\n";
    assert!(stdout(&plain).starts_with(told), "{}", stdout(&plain));
    let json = stdout(&server.ask(&[&verb[..], &["--json"]].concat()));
    assert_eq!(json, send(&server, "traffic-fine/r-1", &input, Some("k")).body + "\n");
    let questions = [
        (vec!["processes", "list"], "/v1/processes"),
        (vec!["processes", "list", "traffic-fine"], "/v1/processes/traffic-fine"),
        (vec!["processes", "show", "traffic-fine", "r-1"], "/v1/processes/traffic-fine/r-1"),
    ];
    let mut online = Vec::new();
    for (verb, path) in &questions {
        let json = stdout(&server.ask(&[&verb[..], &["--json"]].concat()));
        assert_eq!(json, server.get(path).body + "\n");
        assert!(server.ask(verb).status.success());
        online.push(json);
    }
    let list = stdout(&server.ask(&["processes", "list", "traffic-fine", "--status", "open"]));
    assert!(list.starts_with("no instances"), "{list}");
    let broken = ["processes", "send", "traffic-fine", "r-1", "--type", "X", "--body", "{"];
    assert_usage_error(&server.ask(&broken), &["--body"]);
    assert_fails_with(&server.ask(&["processes", "show", "x", "y"]), &["process_not_found"]);
    let folder = server.stop();
    let data = folder.to_str().unwrap();
    for ((verb, _), online) in questions.iter().zip(online) {
        let offline = run(&[&verb[..], &["--json", "--data", data]].concat());
        assert_eq!(stdout(&offline), online, "{}", stderr(&offline));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
