//! `steadfast login` and `steadfast whoami`.

use steadfast_api::tokens::{CreateLoginLink, LoginLink, WhoAmI, WhoAmIAnswer};

use super::{client::Client, noun::answer, output::print};
use crate::{args::AskArgs, failure::Failure};

/// Prints a link that logs a browser in once.
pub(crate) fn login(client: &Client, args: &AskArgs) -> Result<(), Failure> {
    if args.json {
        return answer(client, &CreateLoginLink {}, true, |_, _| String::new());
    }
    let LoginLink { path } = client.send(&CreateLoginLink {}, false)?;
    print(&format!(
        "Open this link in a browser. It works once, within ten minutes.\n\n  {}{path}\n",
        client.url().trim_end_matches('/')
    ))
}

/// Prints the principal of the token.
pub(crate) fn whoami(client: &Client, args: &AskArgs) -> Result<(), Failure> {
    answer(client, &WhoAmI {}, args.json, |_, it| described(it))
}

fn described(it: &WhoAmIAnswer) -> String {
    let Some(token) = &it.token else {
        return "access is open: everybody on this machine may do everything\n".into();
    };
    let organization = it.organization.as_deref().unwrap_or("all");
    let scopes = if it.scopes.is_empty() { "none".to_owned() } else { it.scopes.join(" ") };
    format!(
        "token         {token}\nrole          {}\norganization  {organization}\nscopes        \
         {scopes}\n",
        it.role
    )
}
