//! Bodies of requests: bounded in size and in time.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ApiError;

/// The most bytes of JSON that a request has.
pub(super) const MOST_JSON: usize = 256 << 10;

/// How long the JSON of a request may take to arrive.
const JSON_PATIENCE: Duration = Duration::from_secs(20);

/// How long an upload may take to arrive.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(300);

/// The JSON of a request.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        needs_type(request.headers(), "application/json")?;
        let bytes = read(request.into_body(), MOST_JSON, JSON_PATIENCE).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            // Positions in what a program has written are of no use to anybody.
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            ApiError::bad(format!("not what is expected here: {text}"))
        })
    }
}

/// Reads an upload of at most so many bytes.
pub(super) async fn upload(request: Request, most: usize) -> Result<Bytes, ApiError> {
    needs_type(request.headers(), "application/octet-stream")?;
    let length = (request.headers().get(header::CONTENT_LENGTH))
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(ApiError::too_large(most));
    }
    read(request.into_body(), most, UPLOAD_PATIENCE).await
}

async fn read(body: Body, most: usize, patience: Duration) -> Result<Bytes, ApiError> {
    match timeout(patience, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                if error.is::<http_body_util::LengthLimitError>() {
                    return Err(ApiError::too_large(most));
                }
                cause = error.source();
            }
            Err(ApiError::bad("the body does not come to its end"))
        }
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body takes too long",
        )),
    }
}

/// A form of a page from elsewhere cannot have this type without asking first.
fn needs_type(headers: &HeaderMap, wanted: &str) -> Result<(), ApiError> {
    let given = (headers.get(header::CONTENT_TYPE))
        .and_then(|value| value.to_str().ok()?.split(';').next())
        .map(str::trim);
    if given.is_some_and(|given| given.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!("Content-Type has to be {wanted}"),
    ))
}
