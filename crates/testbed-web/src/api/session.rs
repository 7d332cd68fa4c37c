//! Handlers that exchange the token for a session and end sessions.

use std::time::Instant;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::Shared;
use crate::{body::JsonBody, error::ApiError, guard};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    token: String,
}

pub(super) async fn get(State(app): Shared, headers: HeaderMap) -> Json<Value> {
    let signed_in = app.allows(guard::bearer(&headers));
    Json(json!({ "token_required": app.token.is_some(), "signed_in": signed_in }))
}

pub(super) async fn post(
    State(app): Shared,
    JsonBody(given): JsonBody<SignIn>,
) -> Result<Response, ApiError> {
    let given = Zeroizing::new(given.token);
    let Some(token) = &app.token else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if !token.is(given.trim()) {
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "wrong token"));
    }
    let session =
        (app.sessions.open(Instant::now())).map_err(|error| ApiError::internal(&error))?;
    Ok(Json(json!({ "session": session.as_str() })).into_response())
}

pub(super) async fn delete(State(app): Shared, headers: HeaderMap) -> StatusCode {
    if let Some(session) = guard::bearer(&headers) {
        app.sessions.close(session, Instant::now());
    }
    StatusCode::NO_CONTENT
}
