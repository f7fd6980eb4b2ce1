//! The library: lists, tags, deletion.

use steadfast_core::{Object, test::TestApp};
use steadfast_generations::{
    Create, DEFAULT_WORKSPACE, DeleteArtifact, GenerationManager, GenerationStatus, GetGeneration,
    GetState, Library, ListArtifacts, ListGenerations, ListTags, Narrow, ReserveId, SetTag,
    TagTarget, artifact_id,
};

use crate::stage::{Fake, ID, blobs, create, kept, request, start, webhook};

async fn artifacts(app: &TestApp, narrow: Narrow) -> Vec<u32> {
    let ask = ListArtifacts { generation: None, narrow: Narrow { limit: 10, ..narrow } };
    let found = app.call(Library::at(DEFAULT_WORKSPACE), ask).await.unwrap();
    found.into_iter().map(|it| it.index).collect()
}

#[tokio::test]
async fn artifacts_are_tagged_listed_and_deleted() {
    let (fake, library) = (Fake::new(), || Library::at(DEFAULT_WORKSPACE));
    let app = start(&fake).await;
    create(&app, "now", 3).await;
    app.settle().await;
    let set = |index: u32, tag: &str, is_on: bool| {
        let (target, id) = (TagTarget::Artifact, artifact_id(ID, index));
        app.call(library(), SetTag { target, id, tag: tag.into(), is_on })
    };
    assert!(set(1, "best", true).await.unwrap().is_some());
    assert!(set(9, "best", true).await.unwrap().is_none(), "there is no such artifact");
    let tagged = |tag: &str| Narrow { tag: Some(tag.into()), ..Narrow::default() };
    assert_eq!(artifacts(&app, tagged("best")).await, [1]);
    assert_eq!(artifacts(&app, tagged("first")).await.len(), 3, "the tag of their generation");
    assert_eq!(artifacts(&app, tagged("none")).await, Vec::<u32>::new());
    let tags = app.call(library(), ListTags).await.unwrap();
    let tags: Vec<_> =
        tags.iter().map(|it| (it.tag.as_str(), it.generations, it.artifacts)).collect();
    assert_eq!(tags, [("best", 0, 1), ("first", 1, 3)]);
    let id = artifact_id(ID, 1);
    assert!(app.call(library(), DeleteArtifact { id: id.clone() }).await.unwrap().is_some());
    assert!(app.call(library(), DeleteArtifact { id }).await.unwrap().is_none());
    app.settle().await;
    assert_eq!((blobs(&app).await.len(), kept(&app).await.unwrap().artifacts.len()), (2, 2));
    for number in 0..20 {
        set(0, &number.to_string(), true).await.unwrap();
    }
    assert_eq!(set(0, "one more", true).await.unwrap_err().code(), "too_many_tags");
}

#[tokio::test]
async fn lists_go_on_behind_the_last_and_are_narrowed_by_time_and_model() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "now", 2).await;
    app.settle().await;
    let ask = |narrow: Narrow| {
        let ask = ListGenerations { status: None, narrow: Narrow { limit: 5, ..narrow } };
        app.call(Library::at(DEFAULT_WORKSPACE), ask)
    };
    let all = ask(Narrow::default()).await.unwrap();
    assert_eq!(all.len(), 1);
    let at = all[0].created_at;
    for (narrow, count) in [
        (Narrow { after: Some((at, ID.into())), ..Narrow::default() }, 0),
        (Narrow { since: Some(at), ..Narrow::default() }, 1),
        (Narrow { until: Some(at), ..Narrow::default() }, 0),
        (Narrow { model: Some("other".into()), ..Narrow::default() }, 0),
        (Narrow { tag: Some("first".into()), ..Narrow::default() }, 1),
    ] {
        assert_eq!(ask(narrow.clone()).await.unwrap().len(), count, "{narrow:?}");
    }
}

#[tokio::test]
async fn a_key_is_one_request_and_refuses_another() {
    let app = start(&Fake::new()).await;
    let reserve = |workspace: &str, digest: &str| {
        let reserve = ReserveId { key: "k".into(), digest: digest.into() };
        app.call(Library::at(workspace), reserve).key("k")
    };
    let id = reserve(DEFAULT_WORKSPACE, "a").await.unwrap();
    assert_eq!(reserve(DEFAULT_WORKSPACE, "a").await.unwrap(), id);
    assert_eq!(reserve(DEFAULT_WORKSPACE, "b").await.unwrap_err().code(), "key_reused");
    assert_ne!(reserve("team", "a").await.unwrap(), id, "a workspace has its own keys");
}

#[tokio::test]
async fn what_is_asked_for_in_a_workspace_is_in_its_library_alone() {
    let app = start(&Fake::new()).await;
    let create = Create { workspace: "team".into(), ..request("now", 2) };
    let shown = app.call(GenerationManager::at(ID), create).await.unwrap();
    assert_eq!(shown.workspace, "team");
    app.settle().await;
    assert_eq!(kept(&app).await, None);
    assert_eq!(artifacts(&app, Narrow::default()).await, Vec::<u32>::new());
    let ask = GetGeneration { id: ID.into() };
    let found = app.call(Library::at("team"), ask).await.unwrap().unwrap();
    assert_eq!((found.workspace.as_str(), found.artifacts.len()), ("team", 2));
}

#[tokio::test]
async fn what_people_change_while_a_generation_is_under_way_is_shown_at_once() {
    let (fake, library) = (Fake::new(), || Library::at(DEFAULT_WORKSPACE));
    let app = start(&fake).await;
    create(&app, "slow", 3).await;
    app.settle().await;
    for index in [0, 1] {
        webhook(&app, index).await.unwrap();
    }
    app.settle().await;
    let set = |target: TagTarget, id: String, is_on: bool| {
        app.call(library(), SetTag { target, id, tag: "best".into(), is_on })
    };
    for is_on in [true, false, true] {
        set(TagTarget::Artifact, artifact_id(ID, 0), is_on).await.unwrap();
    }
    set(TagTarget::Generation, ID.into(), true).await.unwrap();
    app.call(library(), DeleteArtifact { id: artifact_id(ID, 1) }).await.unwrap();
    app.settle().await;
    let live = app.call(GenerationManager::at(ID), GetState).await.unwrap().unwrap();
    assert_eq!(live.status, GenerationStatus::Active);
    let artifacts: Vec<_> = live.artifacts.iter().map(|it| (it.index, it.tags.clone())).collect();
    assert_eq!(artifacts, [(0, vec!["best".to_owned()])]);
    assert_eq!(live.request.tags, ["best", "first"]);
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.artifacts.len(), kept.request.tags), (1, live.request.tags));
}

#[tokio::test]
async fn what_people_change_when_a_generation_is_over_is_shown_by_its_manager_too() {
    let (fake, library) = (Fake::new(), || Library::at(DEFAULT_WORKSPACE));
    let app = start(&fake).await;
    create(&app, "now", 2).await;
    app.settle().await;
    let (target, id) = (TagTarget::Generation, ID.to_owned());
    let tag = SetTag { target, id, tag: "a".into(), is_on: true };
    let changed = app.call(library(), tag).await.unwrap().unwrap();
    assert_eq!(changed.generation, ID);
    // A caller that delivers the change sees it at once; the second delivery changes nothing.
    app.call(GenerationManager::at(ID), changed.change).await.unwrap();
    let live = app.call(GenerationManager::at(ID), GetState).await.unwrap().unwrap();
    assert_eq!(live.request.tags, ["a", "first"]);
    app.call(library(), DeleteArtifact { id: artifact_id(ID, 0) }).await.unwrap();
    app.settle().await;
    let live = app.call(GenerationManager::at(ID), GetState).await.unwrap();
    assert_eq!(live, kept(&app).await, "both have the same of it");
}
