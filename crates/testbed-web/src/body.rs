//! Receives request bodies, with limits on their size and time.

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

/// Maximum size of a JSON body, in bytes.
pub(super) const MAX_JSON_BYTES: usize = 256 << 10;

/// Maximum number of bytes that are read beyond the maximum size of a body, and discarded.
const MAX_DISCARDED_BYTES: usize = 1 << 20;

/// Time limit for receiving a JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for receiving an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Extracts a JSON body of at most [`MAX_JSON_BYTES`] within [`JSON_TIMEOUT`].
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        needs_type(request.headers(), "application/json")?;
        let bytes = read(request.into_body(), MAX_JSON_BYTES, JSON_TIMEOUT).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            // The position of the error is removed. It does not help users, because they did not
            // write the JSON: the web UI did.
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            ApiError::bad(format!("invalid request: {text}"))
        })
    }
}

/// Receives an upload of at most `max` bytes.
pub(super) async fn upload(request: Request, max: usize) -> Result<Bytes, ApiError> {
    needs_type(request.headers(), "application/octet-stream")?;
    let length = (request.headers().get(header::CONTENT_LENGTH))
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > (max + MAX_DISCARDED_BYTES) as u64) {
        return Err(ApiError::too_large(max));
    }
    read(request.into_body(), max, UPLOAD_TIMEOUT).await
}

/// Receives a body of at most `max` bytes. Reads and discards up to [`MAX_DISCARDED_BYTES`] more of
/// a longer body, because a client often does not read an answer before it has sent its body.
async fn read(mut body: Body, max: usize, limit: Duration) -> Result<Bytes, ApiError> {
    let reading = async {
        let mut bytes = BytesMut::new();
        let mut length = 0_usize;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::bad("the body is incomplete"))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            length = length.saturating_add(data.len());
            if length <= max {
                bytes.extend_from_slice(&data);
            } else {
                bytes = BytesMut::new();
            }
            if length > max.saturating_add(MAX_DISCARDED_BYTES) {
                break;
            }
        }
        match length <= max {
            true => Ok(bytes.freeze()),
            false => Err(ApiError::too_large(max)),
        }
    };
    match timeout(limit, reading).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )),
    }
}

/// Checks the content type. A form on another site cannot send these types without a CORS
/// preflight, which this server refuses.
fn needs_type(headers: &HeaderMap, wanted: &str) -> Result<(), ApiError> {
    let given = (headers.get(header::CONTENT_TYPE))
        .and_then(|value| value.to_str().ok()?.split(';').next())
        .map(str::trim);
    if given.is_some_and(|given| given.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!("expected Content-Type {wanted}"),
    ))
}
