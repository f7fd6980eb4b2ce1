//! The part of a page that is kept fresh while something happens in it.

use maud::{Markup, html};
use steadfast_web::{
    Page,
    console::{Section, console},
};

use super::assets;
use crate::api::wire::{Message, MessageState};

/// Marks the part that the script reads again and again while it is busy. Without script it is what
/// it was when the page was made.
pub(super) fn live(busy: bool, content: &Markup) -> Markup {
    html! {
        div #live data-busy[busy] { (content) }
    }
}

/// The same, read again in a longer period, for what is costly to read.
pub(super) fn live_every(seconds: u32, content: &Markup) -> Markup {
    html! { div #live data-busy data-every=(seconds) { (content) } }
}

/// A page with a part that the script keeps fresh: see [`live`].
pub(super) fn live_page(title: &str, section: Section, content: Markup) -> Page {
    console(title, section, content).script(&assets::SCRIPT)
}

/// Whether one of the messages is still to be delivered.
pub(super) fn is_busy(messages: &[Message]) -> bool {
    let waits = |it: &MessageState| matches!(it, MessageState::Pending | MessageState::InFlight);
    messages.iter().any(|it| it.state.as_ref().is_some_and(waits))
}
