//! From the token to a cookie.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::Shared;
use crate::web::{body::Asked, error::ApiError, guard};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    token: String,
}

pub(super) async fn get(State(app): Shared, headers: HeaderMap) -> Json<Value> {
    let signed_in =
        (app.token.as_ref()).is_none_or(|token| guard::is_signed_in(&headers, token, app.port));
    Json(json!({ "token_required": app.token.is_some(), "signed_in": signed_in }))
}

pub(super) async fn post(
    State(app): Shared,
    Asked(given): Asked<Given>,
) -> Result<Response, ApiError> {
    let given = Zeroizing::new(given.token);
    let Some(token) = &app.token else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if !token.is(given.trim()) {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "this is not the token of this server",
        ));
    }
    Ok(with_cookie(app.port, &token.cookie(), "2592000"))
}

pub(super) async fn delete(State(app): Shared) -> Response {
    with_cookie(app.port, "", "0")
}

fn with_cookie(port: u16, value: &str, seconds: &str) -> Response {
    let name = guard::cookie_name(port);
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
