//! The pages: choose a room, and be in one. The script does the talking.

use std::sync::LazyLock;

use axum::extract::Path;
use maud::{Markup, html};
use steadfast_core::{
    CallError,
    store::{Address, EntityKind},
};
use steadfast_web::{Asset, Page, Problem, Role, Routes};

static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/chat.js", include_str!("../assets/chat.js")));

pub(crate) fn routes() -> Routes {
    Routes::new("chat")
        .pages()
        .get("/chat", Role::Viewer, "Ask for a room and a name", choose)
        .get("/chat/{room}", Role::Viewer, "Show a room", room)
        .asset("Script of a chat room", &SCRIPT)
}

async fn choose() -> Page {
    let content = html! {
        h1 { "Chat" }
        p.lead {
            "A room is an object and each line is a turn: every line shown is durable. Open a "
            "room in two windows, under two names."
        }
        form.card.enter #enter {
            label for="room" { "Room" }
            // A browser takes one or two dots for a way up, however they are written.
            input #room name="room" required maxlength="128" pattern=r"(?!\s*\.\.?\s*$).*\S.*"
                title="A room, other than . and .." autocomplete="off" value="lobby";
            (name_field())
            button.button { "Enter" }
        }
        (needs_script())
    };
    Page::new("Chat", content).script(&SCRIPT)
}

/// Any text is a room; a slash in it is written as %2F.
async fn room(Path(room): Path<String>) -> Result<Page, Problem> {
    Address::new(EntityKind::Object, "chat", &room).map_err(CallError::from)?;
    let content = html! {
        p.crumbs { a href="/chat" { "← Rooms" } }
        h1.address { (room) }
        form.card.enter #enter hidden {
            (name_field())
            button.button { "Enter" }
        }
        section.chat #chat data-room=(room) aria-label="Room" hidden {
            div.around {
                span.badge #state role="status" {}
                ul #here aria-label="Who is here" {}
            }
            div.talk #talk tabindex="0" aria-label="Lines" {
                p.more { button.button #earlier type="button" hidden { "Earlier lines" } }
                div role="log" aria-live="polite" { ol #lines {} }
                ol #pending aria-label="Not sent yet" {}
            }
            div.left #left hidden {
                p { "You left the room because you were inactive." }
                button.button #back type="button" { "Rejoin" }
            }
            p.problem #problem role="alert" hidden {}
            form.say #say {
                label for="text" { "Say" }
                input #text name="text" required maxlength="2000" pattern=r".*\S.*"
                    title="Something to say" autocomplete="off";
                button.button { "Send" }
            }
        }
        (needs_script())
    };
    Ok(Page::new(room, content).script(&SCRIPT))
}

fn name_field() -> Markup {
    html! {
        label for="name" { "Your name" }
        input #name name="name" required maxlength="40" pattern=r".*\S.*" title="Your name"
            autocomplete="nickname";
    }
}

fn needs_script() -> Markup {
    html! { noscript { p.problem { "A chat room needs JavaScript." } } }
}
