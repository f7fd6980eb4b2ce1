//! Which handler serves a request, and with which role.

use super::*;

#[tokio::test]
async fn a_route_that_is_not_described_is_not_served() {
    async fn hidden() -> &'static str {
        "hidden"
    }
    let routes = || porter_routes().route("/hidden", get(hidden)).route("/outside", get_too());
    fn get_too() -> axum::routing::MethodRouter<Runtime> {
        axum::routing::delete(hidden)
    }
    let program = App::new("host").object(Porter).routes("/porter", routes).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    assert_eq!(status(&site, "/porter/outside", HOST).await, 200);
    let response = answer(&site, "/porter/hidden").await;
    assert_eq!(response.status(), 404);
    assert!(text(response).await.contains("does not declare the role"));
    let delete = Request::delete("/porter/outside").header("host", HOST);
    let response = ask(&site, delete.body(Body::empty()).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["allow"]),
        (405, &"GET,HEAD".parse().unwrap())
    );
}

#[tokio::test]
async fn a_websocket_of_a_whole_router_is_a_call() {
    let raw = || needs(Role::Member, Router::<()>::new().route("/x", get(async || "")));
    let program = App::new("host").routes("/raw", raw).test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    for (verb, plain, upgraded) in [("read", 200, 403), ("call", 403, 200)] {
        let scopes = vec![format!("route:raw/x:{verb}").parse().unwrap()];
        let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Member) };
        let token = program.tokens().create(spec, None).await.unwrap().secret;
        let ask = async |upgrade: bool| {
            let request = Request::get("/raw/x").header("host", "localhost");
            let request = request.header("authorization", format!("Bearer {token}"));
            let request = if upgrade { request.header("upgrade", "websocket") } else { request };
            ask(&site, request.body(Body::empty()).unwrap()).await.status().as_u16()
        };
        assert_eq!((ask(false).await, ask(true).await), (plain, upgraded), "{verb}");
    }
}

#[tokio::test]
async fn the_port_for_webhooks_serves_no_other_route() {
    fn hooks() -> Routes {
        let none = Needs::NOTHING;
        Routes::new("hooks").post("/webhooks/shop/{secret}", none, "Hears", async || "heard")
    }
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.routes("", hooks).test().await.unwrap();
    let table = route_table(&program).unwrap();
    let port = crate::ports::webhooks(router(&program, Policy::Loopback).unwrap());
    let mut served = 0;
    for route in table.entries() {
        let path = route.path.replace("{*", "{").replace(['{', '}'], "");
        let request = Request::builder().method(&*route.method).uri(&path);
        // Providers call it by its public name.
        let request = request.header("host", HOST).body(Body::empty()).unwrap();
        let found = ask(&port, request).await.status();
        let is_webhook = route.path.starts_with("/webhooks/");
        served += usize::from(is_webhook);
        assert_eq!(found, if is_webhook { 200 } else { 404 }, "{} {path}", route.method);
    }
    assert_eq!(served, 1);
}

/// A path of a route, with this value for each of its parameters.
fn filled(route: &str, value: &str) -> String {
    let segments = route.split('/').map(|it| if it.starts_with('{') { value } else { it });
    segments.collect::<Vec<_>>().join("/")
}

/// The parts of a response that do not differ from request to request, and the body without its
/// numbers. The length of a body is written by the listener.
async fn shown(response: Response) -> (u16, BTreeSet<String>, String) {
    let (status, headers) = (response.status().as_u16(), response.headers());
    let names = headers.keys().map(|it| it.as_str().to_owned()).filter(|it| it != "content-length");
    let names = names.collect();
    let is_problem = headers.get(header::CONTENT_TYPE);
    let is_problem = is_problem.is_some_and(|it| it == "application/problem+json");
    let body = text(response).await;
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let problem = ["code", "detail", "field", "instance"].map(|it| problem[it].to_string());
    let is_number = |it: char| it.is_ascii_digit() || it == '.';
    let body = if is_problem { problem.join(" ") } else { body.replace(is_number, "") };
    (status, names, body)
}

#[tokio::test]
async fn an_operation_is_answered_over_a_port_as_by_the_router() {
    let program = App::new("host").object(Porter).queue(MAIL).test().await.unwrap();
    let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
    let routes = app::routes(Arc::new(server)).unwrap();
    let create = async |scopes: &[&str]| {
        let scopes = scopes.iter().map(|it| it.parse().unwrap()).collect();
        let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Viewer) };
        program.tokens().create(spec, None).await.unwrap().secret
    };
    let (viewer, scoped) = (create(&[]).await, create(&["queue:mail:read"]).await);
    let tokens = [None, Some("sf_AAAAAAAAAA_x"), Some(&*viewer), Some(&*scoped)];
    let (mut found, mut bodies) = (0, 0);
    for route in route_table(&program).unwrap().entries() {
        // Things of these names do not exist, but the queue.
        let path = route.path.replace("{queue}", "mail").replace("{*", "{");
        let path = path.replace(['{', '}'], "");
        let odd = ["%ff", "a%2Fb", ""].map(|it| filled(&route.path, it));
        let odd = odd.iter().filter(|it| **it != route.path).map(|it| (it, "localhost"));
        for (path, host) in [(&path, "localhost"), (&path, HOST)].into_iter().chain(odd) {
            for token in tokens {
                let request = || {
                    let request = Request::builder().method(&*route.method).uri(path);
                    let request = request.header("host", host);
                    let request = match token {
                        Some(token) => request.header("authorization", format!("Bearer {token}")),
                        None => request,
                    };
                    request.body(Body::from("{\"unknown\": 1}")).unwrap()
                };
                if routes.operation(&request()).is_none() {
                    continue;
                }
                found += 1;
                let local = std::net::Ipv4Addr::LOCALHOST.into();
                let headers = request();
                let client =
                    ClientInfo::direct(local, Scheme::Http, headers.uri(), headers.headers());
                let by_router = shown(ask(&routes.router, request()).await).await;
                let over_port = routes.answer(ConnectionInfo::of(client).await, request()).await;
                let mut over_port = shown(over_port).await;
                let again = shown(ask(&routes.router, request()).await).await;
                if by_router == again {
                    bodies += usize::from(by_router.0 == 200);
                } else {
                    // The body differs from request to request.
                    over_port.2.clone_from(&by_router.2);
                }
                assert_eq!(over_port, by_router, "{} {path}", route.method);
            }
        }
    }
    assert!(500 < found && 5 < bodies, "{found} requests and {bodies} bodies were compared");
    // Other methods and the routes of applications are of the router.
    let is_operation = |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        routes.operation(&request).is_some()
    };
    assert!(is_operation("GET", "/v1/queues/mail") && !is_operation("HEAD", "/v1/queues/mail"));
    assert!(!is_operation("GET", "/v1/queues/mail/") && !is_operation("GET", "/queues/mail"));
}

#[tokio::test]
async fn a_route_of_an_application_precedes_an_operation_that_matches_its_path() {
    fn own() -> Routes {
        Routes::new("own").get("/v1/objects/own/list", Role::Viewer, "Lists", async || "own")
    }
    let program = App::new("host").object(Porter).routes("", own).test().await.unwrap();
    let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
    let routes = app::routes(Arc::new(server)).unwrap();
    for (path, is_own) in [("/v1/objects/own/list", true), ("/v1/objects/own/other", false)] {
        let request = Request::get(path).header("host", "localhost");
        let request = request.body(Body::empty()).unwrap();
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let client = ClientInfo::direct(local, Scheme::Http, request.uri(), request.headers());
        let response = routes.answer(ConnectionInfo::of(client).await, request).await;
        assert_eq!(text(response).await == "own", is_own, "{path}");
    }
}

#[tokio::test]
async fn every_route_is_listed_with_its_role() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let table = route_table(&program).unwrap();
    let need = |method, path| table.find(method, path).map(|it| it.needs.name());
    assert_eq!(need("GET", "/porter/outside"), Some("none"));
    assert_eq!(need("GET", "/porter/inside"), Some("viewer"));
    assert_eq!(need("DELETE", "/v1/buckets/{bucket}/objects/{*key}"), Some("operator"));
    assert_eq!(need("POST", "/v1/queues/{queue}/messages"), Some("member"));
    assert_eq!(need("GET", "/healthz"), Some("none"));
    assert_eq!(need("PATCH", "/healthz"), None);
    let ours = table.entries().iter().filter(|it| it.owner.is_some()).count();
    assert_eq!(ours, 2);
}

#[tokio::test]
async fn services_and_fallbacks_of_a_router_have_its_role() {
    fn files() -> Router {
        let service = Router::new().route("/a", get(async || "a"));
        Router::new()
            .route("/slash/", get(async || "slash"))
            .nest_service("/files", service)
            .fallback(async |caller: Caller| format!("{:?}", caller.runtime().is_some()))
    }
    fn described() -> Routes {
        Routes::new("own").get("/end/", Role::Viewer, "Ends with a slash", async || "end")
    }
    let app = App::new("host").routes("/c", || needs(Role::Admin, files())).routes("/d", described);
    let program = app.test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    for (path, shown) in
        [("/c/files/a", "a"), ("/c/slash/", "slash"), ("/c/other", "true"), ("/d/end/", "end")]
    {
        let response = answer(&site, path).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(text(response).await, shown, "{path}");
    }
    assert_eq!(status(&site, "/d/other", HOST).await, 404);
    assert_eq!(status(&site, "/nowhere", HOST).await, 404);
}

#[tokio::test]
async fn a_layer_of_an_application_may_answer_options() {
    fn open() -> Routes {
        Routes::new("own").get("/open", Role::Viewer, "Says so", async || "yes")
    }
    let program = App::new("host").routes("/shop", open).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    let ask_options = async |path: &str| {
        let request = Request::options(path).header("host", HOST).body(Body::empty()).unwrap();
        ask(&site, request).await.status().as_u16()
    };
    // No layer answers here: the route has no such method.
    assert_eq!(ask_options("/shop/open").await, 405);
    assert_eq!(ask_options("/shop/closed").await, 404);
}
