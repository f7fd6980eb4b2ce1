//! Gives a dead or cancelled message another chance.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use steadfast_store::{
    Address, Commit, EntityKind, Expect, InvalidInput, Json, Outcome, Position, Recorded, Remember,
    Settled, SettledAs, State as Delivery, StoreError, Write,
};

use super::{
    id,
    messages::not_found,
    problem::{Code, Problem, ProblemBody},
    wire::{Addresses, Message, MessageState},
};
use crate::node::Node;

/// Makes a dead or cancelled message pending again, with new attempts.
#[utoipa::path(post, path = "/v1/messages/{position}/revive", tag = "messages",
    params(
        ("position" = i64, Path, description = "The message's `globalPosition`"),
        ("Idempotency-Key" = Option<String>, Header, description =
            "A repetition within 24 hours gets the first answer and changes nothing"),
    ),
    responses(
        (status = 200, body = Message, description = "It is pending"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "It is neither dead nor cancelled"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json",
            description = "The key was used for another message"),
    ),
)]
pub(crate) async fn revive(
    State(node): State<Arc<Node>>,
    Path(position): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let position = id::position(&position)?;
    let key = remember(&headers, position)?;
    let found = node.runtime.store().message(position).await?;
    let refused = match revivable(position, found) {
        Ok((recorded, as_)) => {
            let reply = reply(&node, &recorded).await?;
            // Somebody may have revived it since, and it may be done by now.
            let still = Expect::Settled { position, as_ };
            let mut commit = Commit::of(Write::Revive { position }).expect(still);
            if let Some(key) = key {
                commit = commit.write(Write::Remember(key.reply(200, reply.clone())));
            }
            return match node.runtime.store().commit(commit).await? {
                Outcome::Committed(_) => Ok(answer(reply)),
                Outcome::Duplicate(before) => Ok(answer(before.reply.unwrap_or(reply))),
                Outcome::Rejected(rejection) => Err(rejection.into()),
            };
        }
        Err(problem) => problem,
    };
    // A repetition finds the message in the state that the first request put it into, so the key
    // has to be looked up before the state is complained about.
    match key {
        Some(key) => recall(&node, position, key).await?.map(answer).ok_or(refused),
        None => Err(refused),
    }
}

/// Reads the key that makes a repetition harmless.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let invalid = || InvalidInput::Key { len: key.len() };
    Ok(Some(key.to_str().map_err(|_| StoreError::from(invalid()))?))
}

fn remember(headers: &HeaderMap, position: Position) -> Result<Option<Remember>, Problem> {
    let Some(text) = key_of(headers)? else { return Ok(None) };
    let scope = Address::new(EntityKind::System, "http", "revive");
    let scope = scope.map_err(|error| StoreError::from(InvalidInput::from(error)))?;
    let request = position.to_string();
    let remember = Remember::new(scope.id(), text, request.as_bytes());
    Ok(Some(remember.map_err(StoreError::from)?))
}

fn revivable(
    position: Position,
    found: Option<Recorded>,
) -> Result<(Recorded, SettledAs), Problem> {
    let recorded = found.ok_or_else(|| not_found(position))?;
    let state = match &recorded.state {
        Some(Delivery::Settled(Settled {
            as_: as_ @ (SettledAs::Dead | SettledAs::Cancelled),
            ..
        })) => {
            let as_ = *as_;
            return Ok((recorded, as_));
        }
        Some(Delivery::Settled(Settled { as_: SettledAs::Done, .. })) => "done",
        Some(Delivery::Pending { .. }) => "pending already",
        Some(Delivery::InFlight { .. }) => "in flight",
        None => "not one to be delivered",
    };
    let detail = format!("message {position} is {state}; only dead and cancelled ones are revived");
    Err(Problem::new(Code::NotRevivable, detail))
}

/// The message as it will be. It is recorded with the key, in the commit whose time it cannot know.
async fn reply(node: &Node, recorded: &Recorded) -> Result<Json, StoreError> {
    let addresses =
        Addresses::read(node.runtime.store().as_ref(), std::slice::from_ref(recorded)).await?;
    let mut message = Message::of(recorded, &addresses);
    message.state = Some(MessageState::Pending);
    Ok(Json::of(&message)?)
}

/// Looks a key up through a commit that cannot be applied: what is pending is not revived.
async fn recall(node: &Node, position: Position, key: Remember) -> Result<Option<Json>, Problem> {
    let commit = Commit::of(Write::Remember(key))
        .expect(Expect::Pending { position })
        .write(Write::Revive { position });
    match node.runtime.store().commit(commit).await? {
        Outcome::Duplicate(before) => Ok(before.reply),
        Outcome::Rejected(rejection) if Code::of_rejection(&rejection) == Code::KeyReused => {
            Err(rejection.into())
        }
        Outcome::Rejected(_) | Outcome::Committed(_) => Ok(None),
    }
}

fn answer(reply: Json) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], reply.as_str().to_owned()).into_response()
}
