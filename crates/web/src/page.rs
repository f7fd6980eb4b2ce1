//! A page around its content.

use maud::{DOCTYPE, Markup, html};

/// What a page is.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The application: its files are `/{app}-assets/{app}.css`, `.js` and `.svg`.
    pub app: &'a str,
    /// Its title.
    pub title: &'a str,
    /// What it is about, for its script.
    pub about: Option<&'a str>,
}

/// The page.
pub fn page(page: Page<'_>, body: &Markup) -> Markup {
    let Page { app, title, about } = page;
    let asset = |kind: &str| format!("/{app}-assets/{app}.{kind}");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(asset("svg"));
                link rel="stylesheet" href=(asset("css"));
                script src=(asset("js")) defer {}
            }
            body data-about=[about] {
                header {
                    h1 { (title) }
                    span #line aria-live="polite" {}
                    nav { a href="/" { "Steadfast" } }
                }
                main { (body) }
            }
        }
    }
}
