//! Login and logout: a token, or the code of a login link, begins a session of the browser.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use maud::html;
use serde::Deserialize;
use steadfast_core::{Denied, SESSION_MAX, TokenError, object::Caller};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::{LOGIN, forms::Fields};
use crate::{
    access::{cookie_name, is_https, session},
    listener::ConnectionInfo,
    server::Server,
    transport::ClientInfo,
};

#[derive(Debug, Deserialize)]
pub(super) struct LoginParams {
    /// The page to show afterwards.
    #[serde(default)]
    next: Option<String>,
}

/// Shows the login form. The script submits the code of a link, which is behind the `#` of the URL
/// so that no log has it.
pub(super) async fn show(
    Extension(caller): Extension<Caller>,
    Params(LoginParams { next }): Params<LoginParams>,
) -> Page {
    form(&local(next.as_deref()), None, matches!(caller, Caller::Principal(_)))
}

fn form(next: &str, failed: Option<&str>, has_session: bool) -> Page {
    let content = html! {
        // A link must not replace a session silently: somebody else may have sent it.
        form.login method="post" action="/login" data-session[has_session] {
            h1 { "Log in" }
            @if let Some(failed) = failed {
                p.error role="alert" { (failed) }
            }
            p { "Access to this server is closed. Enter a token." }
            label {
                "Token"
                input type="password" name="token" autocomplete="current-password" required
                    autofocus;
            }
            input type="hidden" name="next" value=(next);
            button.button.main { "Log in" }
            p.quiet {
                "On the machine of the server the token is in " code { "data/admin.token" } "; "
                code { "steadfast login" } " prints a link that works once."
            }
        }
    };
    console("Log in", Section::None, content).script(&LOGIN)
}

/// Begins a session.
pub(super) async fn begin(
    State(server): State<Arc<Server>>,
    connection: Option<Extension<ConnectionInfo>>,
    headers: HeaderMap,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let client = connection.as_ref().map(|it| &it.client);
    let network = client.map(ClientInfo::network);
    server.rates.check_login(network.as_deref().unwrap_or_default())?;
    let secret = fields.required("token")?;
    let next = local(fields.text("next").as_deref());
    fields.end()?;
    let sessions = server.runtime.sessions();
    let address = client.map(|it| it.address.to_string());
    let begun = match secret.strip_prefix("link:") {
        Some(code) => sessions.begin_with_link(code, address.as_deref()).await,
        None => sessions.begin(&secret, address.as_deref()).await,
    };
    let begun = match begun {
        Ok(begun) => begun,
        Err(error @ TokenError::Denied(denied)) => {
            let text = match (secret.starts_with("link:"), denied) {
                (true, _) => "This link was used or has expired.".to_owned(),
                (false, Denied::Missing | Denied::Unknown) => "No such token.".to_owned(),
                (false, Denied::Expired | Denied::Revoked) => error.to_string(),
            };
            let status = axum::http::StatusCode::UNAUTHORIZED;
            return Ok((status, form(&next, Some(&text), false)).into_response());
        }
        Err(error) => return Err(error.into()),
    };
    // A session from before the login could have been planted by somebody else.
    let name = cookie_name(&server, client);
    if let Some(old) = session(&headers, &name) {
        sessions.end(old).await?;
    }
    let mut response = Redirect::to(&next).into_response();
    // The audit log names it.
    response.extensions_mut().insert(Caller::Principal(Arc::new(begun.principal)));
    set_cookie(&mut response, client, &name, &begun.secret, SESSION_MAX.as_secs())?;
    Ok(response)
}

/// Ends the session.
pub(super) async fn end(
    State(server): State<Arc<Server>>,
    connection: Option<Extension<ConnectionInfo>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let client = connection.as_ref().map(|it| &it.client);
    let name = cookie_name(&server, client);
    let sessions = server.runtime.sessions();
    // Only a session that exists is worth a commit.
    if let Some(secret) = session(&headers, &name)
        && sessions.find(secret).await.is_ok()
    {
        sessions.end(secret).await?;
    }
    let mut response = Redirect::to("/login").into_response();
    set_cookie(&mut response, client, &name, "", 0)?;
    Ok(response)
}

fn set_cookie(
    response: &mut Response,
    client: Option<&ClientInfo>,
    name: &str,
    value: &str,
    seconds: u64,
) -> Result<(), Problem> {
    let secure = if is_https(client) { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let cookie = HeaderValue::from_str(&cookie)
        .map_err(|error| Problem::of(steadfast_api::Code::Internal, error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}

/// A path of this server; anything else leads to the overview.
fn local(next: Option<&str>) -> String {
    let is_local = |it: &&str| {
        let second = it.as_bytes().get(1);
        it.starts_with('/') && second != Some(&b'/') && second != Some(&b'\\')
    };
    let fits = |it: &&str| is_local(it) && !it.contains(|it: char| it.is_control());
    next.filter(fits).unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_a_page_of_this_server_only() {
        for good in ["/", "/queues/mail?state=dead", "/login"] {
            assert_eq!(local(Some(good)), good);
        }
        for bad in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb"] {
            assert_eq!(local(Some(bad)), "/", "{bad}");
        }
        assert_eq!(local(None), "/");
    }
}
