//! Ids in paths: a stream by id or address, a message by position.

use steadfast_api::Code;
use steadfast_store::{Address, EntityId, Position};
use steadfast_web::Problem;

/// Parses a stream's id: 32 hexadecimal digits, or an address to compute it from.
pub(crate) fn stream(text: &str) -> Result<EntityId, Problem> {
    if let Some(id) = EntityId::from_hex(text) {
        return Ok(id);
    }
    match text.parse::<Address>() {
        Ok(address) => Ok(address.id()),
        Err(error) => {
            Err(Problem::of(Code::BadRequest, format!("{error}; or the id, 32 hexadecimal digits")))
        }
    }
}

/// Parses the number of a turn.
pub(crate) fn turn(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_| {
        Problem::of(Code::BadRequest, format!("`{text}` is not a turn; it is a number"))
    })
}

/// Parses a message's position in the store.
pub(crate) fn position(text: &str) -> Result<Position, Problem> {
    text.parse().map_err(|_| {
        Problem::of(Code::BadRequest, format!("`{text}` is not a position; it is a number"))
    })
}
