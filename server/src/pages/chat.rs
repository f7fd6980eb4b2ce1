//! Chat rooms: choose one, and be in one. What happens there is the script's.

use axum::extract::Path;
use maud::{Markup, html};
use steadfast::CallError;
use steadfast_store::{Address, EntityKind};

use super::{
    assets,
    shell::{Section, shell},
};
use crate::api::problem::Problem;

/// Asks for a room and a name.
#[utoipa::path(get, path = "/chat", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn choose() -> Markup {
    let content = html! {
        h1 { "Chat" }
        p.lead {
            "A room is an object, and each line is a turn: what you see said is durable. Open a "
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
        (script())
    };
    shell("Chat", Section::None, &content)
}

/// Shows a room.
#[utoipa::path(get, path = "/chat/{room}", tag = "pages",
    params(("room" = String, Path, description = "Any text, a slash in it written as %2F")),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(super) async fn room(Path(room): Path<String>) -> Result<Markup, Problem> {
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
                p { "Nothing was said for long, so you left the room." }
                button.button #back type="button" { "Come back" }
            }
            p.problem #problem role="alert" hidden {}
            form.say #say {
                label for="text" { "Say" }
                input #text name="text" required maxlength="2000" pattern=r".*\S.*"
                    title="Something to say" autocomplete="off";
                button.button { "Send" }
            }
        }
        (script())
    };
    Ok(shell(&room, Section::None, &content))
}

fn name_field() -> Markup {
    html! {
        label for="name" { "Your name" }
        input #name name="name" required maxlength="40" pattern=r".*\S.*" title="Your name"
            autocomplete="nickname";
    }
}

fn script() -> Markup {
    html! {
        noscript { p.problem { "A chat room needs JavaScript." } }
        script src=(assets::chat_url()) defer {}
    }
}
