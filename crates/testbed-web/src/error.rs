//! Errors of requests, as HTTP answers.

use std::fmt;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

/// An HTTP status with a message of one line.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    more: Map<String, Value>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl fmt::Display) -> Self {
        Self {
            status,
            message: message.to_string().replace(['\n', '\r'], " "),
            more: Map::new(),
        }
    }

    pub(super) fn bad(message: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn forbidden(message: impl fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn missing(what: impl fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }

    pub(super) fn conflict(message: impl fmt::Display) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("too large: expected at most {limit} bytes"),
        )
    }

    pub(super) fn internal(error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Adds a field to the JSON object of the answer.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = self.more;
        body.insert("error".to_owned(), self.message.into());
        (self.status, Json(Value::Object(body))).into_response()
    }
}
