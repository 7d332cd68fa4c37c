//! Handlers for circuits: the catalogue and users' uploads.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transpute::circuit::catalogue;

use super::{QueryPairs, Shared, params};
use crate::{
    app::App,
    body::{self, JsonBody},
    error::ApiError,
    predictor::{CircuitFacts, Source},
    store::{Store, Upload, UploadError},
};

/// Maximum size of an uploaded circuit, in bytes. It bounds memory, because the server holds an
/// upload in memory while it receives it.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The prefix of the name of an upload. The digest of the upload follows. Names of the catalogue do
/// not have it.
const UPLOAD_PREFIX: &str = "upload:";

/// Maximum length of a circuit's name with its parameters, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// Maximum length of an upload's label, in characters.
const MAX_LABEL_CHARS: usize = 80;

/// A circuit in an answer: its name, description and, if known, its size.
#[derive(Debug, Serialize)]
pub(super) struct CircuitView {
    name: String,
    kind: &'static str,
    label: String,
    summary: String,
    parameters: String,
    example: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    and_gates: Option<u64>,
    xor_gates: Option<u64>,
    input_widths: Option<Vec<u32>>,
    output_widths: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InspectRequest {
    circuit: String,
}

impl CircuitView {
    fn built_in(circuit: &catalogue::Entry, spec: String, facts: Option<CircuitFacts>) -> Self {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Self {
            name: circuit.name.to_owned(),
            kind: "builtin",
            label: spec.clone(),
            summary: circuit.summary.to_owned(),
            parameters: circuit.parameters.to_owned(),
            example: spec,
            inputs: words(circuit.inputs),
            outputs: words(circuit.outputs),
            ..Self::with(facts)
        }
    }

    fn upload(upload: Upload) -> Self {
        Self {
            name: format!("sha256:{}", upload.digest),
            kind: "upload",
            label: upload.label,
            summary: "uploaded".to_owned(),
            example: format!("{UPLOAD_PREFIX}{}", upload.digest),
            ..Self::with(Some(upload.facts))
        }
    }

    fn with(facts: Option<CircuitFacts>) -> Self {
        let facts = facts.as_ref();
        Self {
            name: String::new(),
            kind: "",
            label: String::new(),
            summary: String::new(),
            parameters: String::new(),
            example: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            and_gates: facts.map(|facts| facts.and_gates),
            xor_gates: facts.map(|facts| facts.xor_gates),
            input_widths: facts.map(|facts| facts.input_widths.clone()),
            output_widths: facts.map(|facts| facts.output_widths.clone()),
        }
    }
}

/// Returns all circuits: those of the catalogue, then the uploads.
pub(super) fn all(app: &App) -> Result<Vec<CircuitView>, ApiError> {
    let built_in = catalogue::entries().iter().map(|circuit| {
        let spec = circuit.example.spec.to_owned();
        let facts = app.known(&Source::BuiltIn(spec.clone()));
        CircuitView::built_in(circuit, spec, facts)
    });
    let uploads = app.store.uploads()?.into_iter().map(CircuitView::upload);
    Ok(built_in.chain(uploads).collect())
}

/// Finds the circuit that a request names. Returns its source, its label and its size. The name of
/// a built-in circuit is never used as a path.
pub(super) fn find(app: &App, name: &str) -> Result<(Source, String, CircuitFacts), ApiError> {
    if let Some(digest) = name.strip_prefix(UPLOAD_PREFIX) {
        let path = (app.store.upload_path(digest))
            .ok_or_else(|| ApiError::bad("expected 64 hexadecimal digits after upload:"))?;
        let upload = (app.store.upload(digest)?)
            .ok_or_else(|| ApiError::bad("there is no such upload; it may have been deleted"))?;
        return Ok((Source::Upload(path), upload.label, upload.facts));
    }
    if !is_name(name) {
        return Err(ApiError::bad(
            "expected a circuit such as aes128 or add:64, or an upload",
        ));
    }
    let source = Source::BuiltIn(name.to_owned());
    let facts = app.count(&source)?;
    Ok((source, name.to_owned(), facts))
}

/// Returns whether this text may be the name of a built-in circuit. Rejects paths, flags and file
/// names.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:,=.+".contains(&byte);
    name.len() <= MAX_NAME_BYTES
        && name.bytes().all(allowed)
        && name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && !name.ends_with(".txt")
        && !name.ends_with(".bristol")
}

pub(super) async fn list(State(app): Shared) -> Result<Json<Value>, ApiError> {
    let circuits = app.blocking(all).await?;
    Ok(Json(json!({ "circuits": circuits })))
}

pub(super) async fn inspect(
    State(app): Shared,
    JsonBody(InspectRequest { circuit }): JsonBody<InspectRequest>,
) -> Result<Json<CircuitView>, ApiError> {
    let view = app.heavy(move |app| {
        let (source, _, facts) = find(app, &circuit)?;
        let short = circuit.split(':').next().unwrap_or_default();
        let built_in = (catalogue::entries().iter())
            .filter(|known| known.name == short)
            .min_by_key(|known| known.parameters.is_empty() == circuit.contains(':'));
        Ok(match (source, built_in) {
            (Source::BuiltIn(_), Some(known)) => CircuitView::built_in(known, circuit, Some(facts)),
            _ => {
                let digest = circuit.trim_start_matches(UPLOAD_PREFIX).to_owned();
                let upload = app.store.upload(&digest)?;
                CircuitView::upload(upload.ok_or_else(|| ApiError::missing("such circuit"))?)
            }
        })
    });
    Ok(Json(view.await?))
}

pub(super) async fn upload(
    State(app): Shared,
    pairs: QueryPairs,
    request: Request,
) -> Result<Response, ApiError> {
    let mut params = params(pairs)?;
    let label = label(params.take("name")?.as_deref());
    params.finish()?;
    // The permit is acquired before the body is received, which may take minutes and 64 MiB.
    let _permit = app.limits.uploads.try_acquire().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many circuits are being uploaded; try again later",
        )
    })?;
    let bytes = body::upload(request, MAX_BYTES).await?;
    let (status, view) = (app.heavy(move |app| {
        let digest = Store::digest(&bytes);
        if let Some(known) = app.store.upload(&digest)? {
            return Ok((StatusCode::OK, CircuitView::upload(known)));
        }
        let path = app.store.put_upload(&digest, &bytes).map_err(refused)?;
        let facts = match app.predictor.count(&Source::Upload(path.clone())) {
            Ok(facts) => facts,
            Err(problem) => {
                app.store.drop_upload(&path);
                let known = path.to_string_lossy();
                return Err(ApiError::bad(problem.replace(&*known, &label)));
            }
        };
        let upload = Upload {
            digest,
            label,
            facts,
        };
        app.store.keep_upload(&upload, bytes.len() as u64)?;
        Ok((StatusCode::CREATED, CircuitView::upload(upload)))
    }))
    .await?;
    Ok((status, Json(view)).into_response())
}

fn refused(error: UploadError) -> ApiError {
    match error {
        UploadError::Full => ApiError::conflict(error),
        error => ApiError::internal(&error),
    }
}

pub(super) async fn delete(
    State(app): Shared,
    Path(digest): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.blocking(move |app| {
        if app.store.upload_path(&digest).is_none() {
            return Err(ApiError::missing("such upload"));
        }
        if app.jobs.needs(&format!("{UPLOAD_PREFIX}{digest}")) {
            return Err(ApiError::conflict(
                "a queued or running job uses this circuit",
            ));
        }
        match app.store.delete_upload(&digest)? {
            true => Ok(StatusCode::NO_CONTENT),
            false => Err(ApiError::missing("such upload")),
        }
    })
    .await
}

/// Returns the label of an upload, derived from the name of the user's file.
fn label(name: Option<&str>) -> String {
    let label: String = (name.unwrap_or_default().chars())
        .filter(|character| !character.is_control() && !matches!(character, '/' | '\\'))
        .take(MAX_LABEL_CHARS)
        .collect();
    match label.trim() {
        "" => "circuit".to_owned(),
        label => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_paths_or_flags() {
        for name in ["aes128", "add:64", "exact-min-cut:8x8,shared"] {
            assert!(is_name(name), "{name}");
        }
        for other in [
            "",
            "--help",
            "-x",
            "./aes128",
            "/etc/passwd",
            "..",
            "a/b",
            "a\\b",
            "aes.txt",
            "x.bristol",
            "a b",
            "a\n",
            "é",
            &"x".repeat(101),
        ] {
            assert!(!is_name(other), "{other}");
        }
    }

    #[test]
    fn a_label_has_no_separators_and_a_bounded_length() {
        assert_eq!(label(None), "circuit");
        assert_eq!(label(Some("../../etc/passwd\n")), "....etcpasswd");
        assert_eq!(
            label(Some(&"é".repeat(200))).chars().count(),
            MAX_LABEL_CHARS
        );
    }
}
