//! Messages of a process as the store keeps them: a type tag and JSON.

use serde_json::{Map, Value};
use steadfast_store::{InvalidInput, Json};

use crate::body::{Body, from_value, to_value};

/// A message cannot be serialized or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It is not serialized as type and data.
    #[error(
        "a message must be written as type and data: use serde(tag = \"type\", content = \"data\")"
    )]
    Shape,
    /// It is not one of the messages of the process.
    #[error("`{message_type}` is not a message of this process: {reason}")]
    Unknown {
        /// Its type.
        message_type: String,
        /// The message of serde, with the path.
        reason: String,
    },
    /// The store rejects it.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
}

/// Writes a message as type and data.
pub(crate) fn encode(message: &impl Body) -> Result<(String, Json), CodecError> {
    let Ok(Value::Object(mut object)) = to_value(message) else {
        return Err(CodecError::Shape);
    };
    let Some(Value::String(message_type)) = object.remove("type") else {
        return Err(CodecError::Shape);
    };
    let data = object.remove("data").unwrap_or(Value::Null);
    if !object.is_empty() {
        return Err(CodecError::Shape);
    }
    let json = Json::of(&data)?;
    // A message that cannot be read must not get into a stream: every later input would read it.
    decode_as(message, &message_type, data)?;
    Ok((message_type, json))
}

fn decode_as<T: Body>(_: &T, message_type: &str, data: Value) -> Result<T, CodecError> {
    decode(message_type, data)
}

/// Reads a message from type and data.
pub(crate) fn decode<T: Body>(message_type: &str, data: Value) -> Result<T, CodecError> {
    let mut object = Map::new();
    object.insert("type".into(), message_type.into());
    object.insert("data".into(), data);
    from_value(&Value::Object(object)).map_err(|error| CodecError::Unknown {
        message_type: message_type.into(),
        reason: error.to_string(),
    })
}
