//! The parts of the page.

use maud::{Markup, html};
use steadfast_web::pretty_json;

use super::{artifacts::file_url, workspace::Workspace};
use crate::{
    Artifact, Generation, GenerationStatus, TagCount, TaskState, TaskView, providers::Model,
};

/// The data of the page.
pub(super) struct Shown {
    pub(super) workspace: Workspace,
    pub(super) active: Vec<Generation>,
    /// The cursor of older generations in progress, if there are more.
    pub(super) older: Option<String>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) next: Option<String>,
    pub(super) tags: Vec<TagCount>,
    pub(super) tag: Option<String>,
    /// The one that is looked at, and where it came from.
    pub(super) inspected: Option<(Artifact, Option<Generation>)>,
}

/// The longest edge of a picture in the grid.
const THUMBNAIL: &str = "320";

/// Says in a form which workspace it is about, if that has to be said.
fn within(workspace: &Workspace) -> Markup {
    html! {
        @if let Some(name) = workspace.spoken() {
            input type="hidden" name="workspace" value=(name);
        }
    }
}

/// Where requests are made.
pub(super) fn request_form(models: &[Model], workspace: &Workspace) -> Markup {
    html! {
        form.card #bench method="post" action="/generations" {
            input type="hidden" name="do" value="submit";
            (within(workspace))
            label.wide { "Prompt " textarea name="prompt" rows="2" required maxlength="3000" {} }
            label {
                "Model "
                select name="model" {
                    @for model in models {
                        option value=(model.id) { (model.name) " (" (model.kind.as_str()) ")" }
                    }
                }
            }
            @for (label, name) in [("Width ", "width"), ("Height ", "height")] {
                label {
                    (label)
                    input type="number" name=(name) value="512" min="64" max="2048" step="64";
                }
            }
            label { "Count " input type="number" name="count" value="4" min="1" max="16"; }
            label { "Seed " input name="seed" inputmode="numeric" placeholder="any"; }
            label { "Tags " input name="tags" placeholder="one, another"; }
            button.button.main { "Generate" }
            p #said role="alert" {}
        }
    }
}

fn button(name: &str, id: &str, text: &str, workspace: &Workspace) -> Markup {
    html! {
        form method="post" action="/generations" {
            input type="hidden" name="do" value=(name);
            input type="hidden" name="id" value=(id);
            (within(workspace))
            button.button.small { (text) }
        }
    }
}

/// A generation that is in progress, or that ended without all of its artifacts.
pub(super) fn active(generation: &Generation, workspace: &Workspace) -> Markup {
    let Generation { id, status, counts, request, .. } = generation;
    let prompt = request.input.get("positivePrompt").and_then(|it| it.as_str());
    html! {
        article.card.generation data-id=(id) data-status=(status.name()) {
            header {
                strong { (prompt.unwrap_or_default()) }
                span.quiet {
                    (request.model) " · " (status.name()) " · "
                    (counts.ready) " of " (request.count)
                }
                @if *status == GenerationStatus::Active {
                    (button("cancel", id, "Cancel", workspace))
                } @else if 0 < counts.failed {
                    (button("retry", id, "Retry", workspace))
                }
                (button("delete-generation", id, "Delete", workspace))
            }
            @if let Some(error) = &generation.library_error {
                p.error { "The library refused it: " (error.message) }
            }
            ul.tasks {
                @for task in &generation.tasks { (task_card(task, generation, workspace)) }
            }
        }
    }
}

fn task_card(task: &TaskView, generation: &Generation, workspace: &Workspace) -> Markup {
    let artifact = generation.artifacts.iter().find(|it| it.index == task.index);
    html! {
        li.task data-index=(task.index) data-status=(task.status.name()) {
            @match (task.status, artifact) {
                (TaskState::Ready, Some(artifact)) => (picture(artifact, workspace)),
                (TaskState::Failed, _) => {
                    p.error { (task.error.as_ref().map_or("failed", |it| it.message.as_str())) }
                }
                (TaskState::Cancelled, _) => p.quiet { "Cancelled" },
                _ => {
                    p.quiet { (task.status.name()) }
                    progress max="100" value=[task.progress] {}
                }
            }
        }
    }
}

fn picture(artifact: &Artifact, workspace: &Workspace) -> Markup {
    let page = workspace.link("/generations", &[("artifact", &artifact.id)]);
    let url = file_url(artifact, workspace, &[]);
    let small = file_url(artifact, workspace, &[("w", THUMBNAIL), ("h", THUMBNAIL)]);
    html! {
        a href={ (page) "#inspector" } {
            @if artifact.content_type.starts_with("image/") && artifact.extension != "gif" {
                img src=(small) alt=(label(artifact)) loading="lazy";
            } @else if artifact.content_type.starts_with("image/") {
                img src=(url) alt=(label(artifact)) loading="lazy";
            } @else {
                video src=(url) muted preload="metadata" {}
            }
        }
    }
}

fn label(artifact: &Artifact) -> String {
    format!("{} {}", artifact.model, artifact.seed.map_or(String::new(), |it| it.to_string()))
}

/// All artifacts, newest first.
pub(super) fn library(shown: &Shown) -> Markup {
    let page = |query: &[(&str, &str)]| shown.workspace.link("/generations", query);
    let tag = shown.tag.as_deref().map(|it| ("tag", it));
    let older = |next| {
        let query: Vec<_> = [("cursor", next)].into_iter().chain(tag).collect();
        page(&query)
    };
    html! {
        section #library aria-label="Library" {
            h2 { "Library" }
            nav.tags aria-label="Tags" {
                a href=(page(&[])) aria-current=[shown.tag.is_none().then_some("page")] { "all" }
                @for it in &shown.tags {
                    a href=(page(&[("tag", &it.tag)]))
                        aria-current=[(shown.tag.as_ref() == Some(&it.tag)).then_some("page")] {
                        (it.tag) " " span.quiet { (it.artifacts) }
                    }
                }
            }
            ul.grid {
                @for artifact in &shown.artifacts {
                    li data-id=(artifact.id) data-generation=(artifact.generation_id) {
                        (picture(artifact, &shown.workspace))
                    }
                }
            }
            @if shown.artifacts.is_empty() { p.empty { "No artifacts yet." } }
            @if let Some(next) = &shown.next {
                a.next href=(older(next)) { "Older" }
            }
        }
    }
}

/// One artifact, and where it came from.
pub(super) fn inspector(shown: &Shown) -> Markup {
    let Some((artifact, generation)) = &shown.inspected else { return html! {} };
    let input = generation.as_ref().map(|it| &it.request.input);
    let took = artifact.submitted_at.map(|it| artifact.created_at - it);
    let workspace = &shown.workspace;
    html! {
        section #inspector tabindex="-1" aria-label="Inspector" {
            a.close href=(workspace.link("/generations", &[])) aria-label="Close" { "×" }
            (full(artifact, workspace))
            dl {
                dt { "Model" } dd { (artifact.model) " by " (artifact.provider) }
                dt { "Size" } dd { (artifact.size) " bytes, " (artifact.content_type) }
                @if let (Some(w), Some(h)) = (artifact.width, artifact.height) {
                    dt { "Pixels" } dd { (w) " × " (h) }
                }
                @if let Some(seed) = artifact.seed { dt { "Seed" } dd { (seed) } }
                @if let Some(cost) = artifact.cost { dt { "Cost" } dd { "$" (cost) } }
                @if let Some(took) = took { dt { "Took" } dd { (took) " ms" } }
                dt { "Artifact" } dd { code { (artifact.id) } }
                dt { "Generation" } dd { code { (artifact.generation_id) } }
                dt { "Tags" }
                dd {
                    ul.chips {
                        @for tag in &artifact.tags {
                            li {
                                (tag)
                                form.inline method="post" action="/generations" {
                                    input type="hidden" name="do" value="untag";
                                    input type="hidden" name="id" value=(artifact.id);
                                    input type="hidden" name="tag" value=(tag);
                                    (within(workspace))
                                    button aria-label={ "Remove " (tag) } { "×" }
                                }
                            }
                        }
                    }
                    form.inline.tagging method="post" action="/generations" {
                        input type="hidden" name="do" value="tag";
                        input type="hidden" name="id" value=(artifact.id);
                        (within(workspace))
                        input name="tag" aria-label="New tag" maxlength="64" required;
                        button.button.small { "Tag" }
                    }
                }
            }
            @if let Some(input) = input {
                details { summary { "Input" } pre { (pretty_json(input)) } }
            }
            details {
                summary { "Response of the provider" }
                pre { (pretty_json(&artifact.response)) }
            }
            (button("delete-artifact", &artifact.id, "Delete", workspace))
        }
    }
}

fn full(artifact: &Artifact, workspace: &Workspace) -> Markup {
    let url = file_url(artifact, workspace, &[]);
    html! {
        @if artifact.content_type.starts_with("image/") {
            a href=(url) { img.full src=(url) alt=(label(artifact)); }
        } @else {
            video.full src=(url) controls {}
        }
    }
}
