//! The HTTP API of a program. Each request is one type: the server parses it, a client sends it,
//! the command line builds it from arguments, and `/openapi.json` describes it. Fields are
//! camelCase, times are RFC 3339 in UTC, ids are strings.

#![forbid(unsafe_code)]

pub mod audit;
pub mod buckets;
mod connection;
mod connector;
mod delivery;
mod json;
pub mod keys;
pub mod objects;
mod operation;
mod page;
mod path;
mod problem;
pub mod processes;
pub mod queues;
pub mod quotas;
mod remote;
pub mod runs;
pub mod server;
pub mod sessions;
pub mod streams;
mod time;
pub mod tokens;

pub use self::{
    connection::{
        ApiError, ApiFuture, BrokenBody, Connection, NoAnswer, Payload, ResponseFuture, Transport,
        connect, payload,
    },
    delivery::DeliveryState,
    operation::{
        InvalidRequest, Method, Operation, OperationInfo, RawRequest, ReceivedRequest, RouteScope,
        TypeSchema,
    },
    page::{LIMIT_MAX, Limit, Page},
    path::escaped,
    problem::ProblemBody,
    time::{read_time, rfc3339},
};
pub use steadfast_core::{JsonText, Role};
pub use steadfast_store::Code;
