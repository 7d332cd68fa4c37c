//! Bodies of requests: bounded in size and in time.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ApiError;

/// The most bytes of JSON that a request has.
pub(super) const MOST_JSON: usize = 256 << 10;

/// How much more is read of what is too long, in bytes.
const MOST_FORGOTTEN: usize = 1 << 20;

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
    if length.is_some_and(|length| length > (most + MOST_FORGOTTEN) as u64) {
        return Err(ApiError::too_large(most));
    }
    read(request.into_body(), most, UPLOAD_PATIENCE).await
}

/// Reads a body of at most so many bytes. Of one that is longer some more is read and forgotten: whoever is told while still
/// sending often does not hear it.
async fn read(mut body: Body, most: usize, patience: Duration) -> Result<Bytes, ApiError> {
    let reading = async {
        let mut bytes = BytesMut::new();
        let mut length = 0_usize;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::bad("the body does not come to its end"))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            length = length.saturating_add(data.len());
            if length <= most {
                bytes.extend_from_slice(&data);
            } else {
                bytes = BytesMut::new();
            }
            if length > most.saturating_add(MOST_FORGOTTEN) {
                break;
            }
        }
        match length <= most {
            true => Ok(bytes.freeze()),
            false => Err(ApiError::too_large(most)),
        }
    };
    match timeout(patience, reading).await {
        Ok(read) => read,
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
