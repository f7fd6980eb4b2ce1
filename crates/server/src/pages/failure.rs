//! An error, for people.

use maud::html;
use steadfast_web::{
    Page,
    console::{Section, console},
};

use crate::api::problem::ProblemBody;

/// Shows what happened and the way back.
pub(crate) fn failure(problem: &ProblemBody) -> Page {
    let content = html! {
        div.empty {
            h1 { (problem.title) }
            p { (problem.detail) }
            p.quiet {
                "Status " (problem.status) " · " code { (problem.code) } " · request "
                code { (problem.request_id) }
            }
            p { a.button href="/" { "Back to the overview" } }
        }
    };
    console(&problem.title, Section::None, content)
}
