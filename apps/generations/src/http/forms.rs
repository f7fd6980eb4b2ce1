//! The forms of the page.

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::Object;
use steadfast_web::{IdempotencyKey, Problem};

use super::{api, artifacts, create, site::Site, tags, workspace::Workspace};
use crate::{Cancel, GenerationManager, GenerationStatus, TagTarget};

/// Any form of the page: `do` says which.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    r#do: String,
    id: String,
    tag: String,
    model: String,
    prompt: String,
    width: Option<u32>,
    height: Option<u32>,
    seed: String,
    count: Option<u32>,
    tags: String,
    workspace: Option<String>,
}

/// Does it, and says where to go then.
pub(super) async fn act(site: &Site, own: Workspace, form: Form) -> Result<String, Problem> {
    let workspace = &own.or_named(form.workspace.clone())?;
    let home = || workspace.link("/generations", &[]);
    let inspected = |id: &str| {
        let page = workspace.link("/generations", &[("artifact", id)]);
        format!("{page}#inspector")
    };
    match form.r#do.as_str() {
        "submit" => submit(site, workspace, form).await.map(|()| home()),
        "cancel" => {
            let found = api::present(site, workspace, &form.id).await?;
            if found.status == GenerationStatus::Active {
                site.objects.call(GenerationManager::at(form.id), Cancel).await?;
            }
            Ok(home())
        }
        "retry" => {
            api::again(site, workspace, &form.id, &IdempotencyKey::default()).await?;
            Ok(home())
        }
        "delete-generation" => api::remove(site, workspace, &form.id).await.map(|()| home()),
        "delete-artifact" => artifacts::remove(site, workspace, &form.id).await.map(|()| home()),
        "tag" | "untag" => {
            let (to, is_on) = (inspected(&form.id), form.r#do == "tag");
            let tag = form.tag.trim().to_owned();
            tags::set(site, workspace, TagTarget::Artifact, (form.id, tag), is_on).await?;
            Ok(to)
        }
        other => {
            Err(Problem::invalid("bad_request", format!("`{other}` is not an action of this page")))
        }
    }
}

async fn submit(site: &Site, workspace: &Workspace, form: Form) -> Result<(), Problem> {
    let mut input = json!({ "positivePrompt": form.prompt.trim() });
    for (name, value) in [("width", form.width), ("height", form.height)] {
        if let Some(value) = value {
            input[name] = value.into();
        }
    }
    if !form.seed.trim().is_empty() {
        let seed: u64 = form.seed.trim().parse().map_err(|_| {
            Problem::invalid("generation_input_invalid", "a seed must be a number from 0 upwards")
        })?;
        input["seed"] = Value::from(seed);
    }
    let tags = form.tags.split(',').map(str::trim).filter(|it| !it.is_empty());
    let tags = tags.map(str::to_owned).collect();
    let request = create::check(site, form.model, input, form.count.unwrap_or(1), tags, None)?;
    create::begin(site, workspace, request, None).await.map(drop)
}
