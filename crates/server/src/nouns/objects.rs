//! Objects: their classes, turns and connections.

pub(crate) mod connect;
pub(crate) mod page;
#[cfg(test)]
mod tests;
mod verbs;

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde::Deserialize;
use steadfast_api::{
    Code, JsonText, Operation, Page, escaped,
    objects::{
        CallObject, DeleteObject, Deleted, ListClasses, ListObjects, ListTurns, ObjectClass,
        ObjectDetail, ObjectEntry, QueryObject, ShowObject, ShowTurn, SqlRows, TurnDetail,
        TurnEntry,
    },
};
use steadfast_core::{
    CallError,
    object::{Caller, SqlQuery},
};
use steadfast_store::EntityKind;
use steadfast_web::{Cursor, PageRequest, Params, Problem, Role, bad_cursor, needs};
use utoipa_axum::routes;

use crate::{
    cli::noun::Noun,
    operation::{ApiRoutes, fails_with},
    pages::{PageRoute, get, post},
    path,
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    let export_errors = ShowObject::INFO.codes().into_iter().chain([Code::TurnNotFound]);
    let of_connect = connect::ERRORS.into_iter().chain(Code::OF_CHANGES);
    ApiRoutes::default()
        .routes(
            CallObject::INFO.scope,
            fails_with(of_connect, needs(Role::Member, routes!(connect::connect))),
        )
        .operation(classes)
        .operation(list)
        .operation_by(show)
        .operation(delete)
        .operation_by(call)
        .operation_by(query)
        .operation(turns)
        .operation_by(turn)
        .routes(
            ShowObject::INFO.scope,
            fails_with(export_errors, needs(Role::Viewer, routes!(export))),
        )
}

/// The pages of the console.
pub(crate) fn pages() -> Vec<PageRoute> {
    use page::{calls, query, turns};
    vec![
        get("/objects", page::classes),
        get("/objects/{class}", page::objects),
        get("/objects/{class}/{name}", page::show),
        post("/objects/{class}/{name}/call", CallObject::NEEDS, calls::call),
        get("/objects/{class}/{name}/tables/{table}", query::rows),
        get("/objects/{class}/{name}/sql", query::sql_form),
        post("/objects/{class}/{name}/sql", QueryObject::NEEDS, query::sql),
        get("/objects/{class}/{name}/turns", turns::turns),
        get("/objects/{class}/{name}/turns/{turn}", turns::turn),
    ]
}

/// The verbs of the command line.
pub(crate) fn verbs() -> Noun {
    Noun::new("objects", "List and call objects, query them in SQL, show their turns")
        .verb::<ListClasses>("classes", &["objects classes"], |_, page| {
            page::class_columns().write(&page.items)
        })
        .verb::<ListObjects>("list", &["objects list counter --prefix visits/"], |_, found| {
            let empty = "no objects; the first call that changes an object creates it\n";
            page::columns().list(&found.items, empty)
        })
        .verb::<ShowObject>("show", &["objects show counter visits"], |_, it| verbs::show(it))
        .verb::<CallObject>(
            "call",
            &["objects call counter visits increment --body '{\"by\": 2}'"],
            |_, reply| format!("{}\n", reply.get()),
        )
        .verb::<QueryObject>(
            "sql",
            &[
                "objects sql counter visits 'SELECT * FROM counter'",
                "objects sql counter visits 'SELECT n FROM counter WHERE n > ?' --params '[1]' \
                 --turn 2",
            ],
            |_, found| verbs::rows(found),
        )
        .custom(
            "turns",
            (
                "List the turns of an object, newest first, or show the rows that one changed",
                &[
                    "objects turns counter visits --limit 10",
                    "objects turns counter visits --turn 2",
                ],
            ),
            verbs::turns,
        )
        .custom(
            "export",
            (
                "Write an object as it is, or was after a turn, to a SQLite file",
                &[
                    "objects export counter visits",
                    "objects export counter visits --turn 2 --output before.sqlite",
                ],
            ),
            verbs::export,
        )
        .deletes::<DeleteObject>(&["objects delete counter visits --yes"], |it| {
            format!("object {}/{}", it.class, it.name)
        })
}

pub(crate) async fn classes(
    server: Arc<Server>,
    it: ListClasses,
) -> Result<Page<ObjectClass>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let after = page.after_class()?;
    let list = server.runtime.objects().look_at_classes(after, page.limit).await?;
    let next = list.next.map(|it| Cursor::Name(it).encode());
    Ok(Page { items: list.classes, next })
}

pub(crate) async fn list(
    server: Arc<Server>,
    it: ListObjects,
) -> Result<Page<ObjectEntry>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let after = page.after_address()?;
    if after.is_some_and(|at| (at.kind(), at.class()) != (EntityKind::Object, &*it.class)) {
        return Err(bad_cursor());
    }
    let (prefix, after) = (it.prefix.unwrap_or_default(), after.map(|it| it.name()));
    let objects = server.runtime.objects();
    let found = objects.look_at_class(&it.class, &prefix, after, page.limit + 1).await?;
    Ok(page.page(found, |it| Cursor::Address(it.address.clone()), |it| it))
}

pub(crate) async fn show(
    server: Arc<Server>,
    caller: Caller,
    it: ShowObject,
) -> Result<ObjectDetail, Problem> {
    Ok(server.runtime.objects().look_at(token_of(&caller), &it.class, &it.name).await?)
}

/// The token of a caller, which shares places with others.
pub(crate) fn token_of(caller: &Caller) -> Option<&str> {
    caller.principal().map(|it| &*it.token)
}

pub(crate) async fn delete(server: Arc<Server>, it: DeleteObject) -> Result<Deleted, Problem> {
    let DeleteObject { class, name } = it;
    // Check first: deleting must not create an object.
    server.runtime.objects().look_at_turns(&class, &name, None, 0).await?;
    if !server.runtime.objects().serves(&class) {
        let detail = format!(
            "this program does not serve class `{class}`; delete `{name}` where it is served"
        );
        return Err(Problem::of(Code::Conflict, detail));
    }
    Ok(Deleted { deleted: server.runtime.objects().delete(&class, &name).await? })
}

pub(crate) async fn call(
    server: Arc<Server>,
    caller: Caller,
    it: CallObject,
) -> Result<JsonText, Problem> {
    let CallObject { class, name, message, body, idempotency_key } = it;
    check_public(&server, &class, &message)?;
    let (body, key) = (body.as_ref().map_or("", JsonText::get), idempotency_key.as_deref());
    let (objects, object) = (server.runtime.objects(), (&*class, &*name));
    let reply = objects.call_json_by(object, &message, body, key, caller).await?;
    JsonText::parse(reply).map_err(|error| Problem::of(Code::Internal, error.to_string()))
}

/// Private and unknown messages are indistinguishable to callers.
fn check_public(server: &Server, class: &str, message: &str) -> Result<(), CallError> {
    if server.runtime.objects().is_public(class, message) {
        return Ok(());
    }
    let class = class.to_owned();
    if server.runtime.objects().classes().any(|it| it == class) {
        return Err(CallError::UnknownMessage { class, message: message.into() });
    }
    Err(CallError::UnknownClass { class })
}

pub(crate) async fn query(
    server: Arc<Server>,
    caller: Caller,
    it: QueryObject,
) -> Result<SqlRows, Problem> {
    let QueryObject { class, name, sql, params, turn } = it;
    let query = SqlQuery { sql, params: params.unwrap_or_default(), turn };
    Ok(server.runtime.objects().query(token_of(&caller), &class, &name, query).await?)
}

pub(crate) async fn turns(server: Arc<Server>, it: ListTurns) -> Result<Page<TurnEntry>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    // The cursor is the first turn of the page.
    let from = Some(page.after_position()?).filter(|it| *it != 0);
    let objects = server.runtime.objects();
    let found = objects.look_at_turns(&it.class, &it.name, from, page.limit + 1).await?;
    let next = found.get(page.limit).map(|it| Cursor::Position(it.position).encode());
    Ok(Page { items: found.into_iter().take(page.limit).map(TurnEntry::from).collect(), next })
}

pub(crate) async fn turn(
    server: Arc<Server>,
    caller: Caller,
    it: ShowTurn,
) -> Result<TurnDetail, Problem> {
    let (objects, token) = (server.runtime.objects(), token_of(&caller));
    Ok(objects.look_at_turn(token, &it.class, &it.name, it.turn).await?)
}

/// The query of an export.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportParams {
    /// The turn after which the object is exported; the current state if left out.
    turn: Option<String>,
}

/// Export an object as it is, or was after a turn, as a SQLite file.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}/export", tag = "objects",
    params(
        ("class" = String, Path, description = "Class name"),
        ("name" = String, Path, description = "Object name; a slash is %2F"),
        ("turn" = Option<i64>, Query, description = "Turn; the current state if left out"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/vnd.sqlite3"),
    ),
)]
pub(crate) async fn export(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let turn = params.turn.as_deref().map(path::turn).transpose()?;
    let objects = server.runtime.objects();
    let past = objects.look_back(token_of(&caller), &class, &name, turn).await?;
    let length = past.bytes_len();
    // Page by page, so that a large object is not copied as a whole.
    let pages = past.into_pages().map(|it| Ok::<_, Infallible>(Bytes::copy_from_slice(&it[..])));
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, disposition(&class, &name, turn)),
    ];
    Ok((headers, Body::from_stream(stream::iter(pages))).into_response())
}

/// The file name for a browser: in ASCII for all, and in full for those that support it.
fn disposition(class: &str, name: &str, turn: Option<i64>) -> String {
    let plain = file_name(class, name, turn);
    let turn = turn.map_or(String::new(), |it| format!("-{it}"));
    let full = escaped(&format!("{class}-{name}{turn}.sqlite"));
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}")
}

/// A file name for an object, with characters that every system accepts.
pub(crate) fn file_name(class: &str, name: &str, turn: Option<i64>) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = name.chars().take(64).map(|it| if fits(it) { it } else { '_' }).collect();
    let turn = turn.map_or(String::new(), |it| format!("-{it}"));
    format!("{class}-{name}{turn}.sqlite")
}
