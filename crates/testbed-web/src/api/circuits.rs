//! Circuits: those of the program, and uploads.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transpute::circuit::catalogue;

use super::{Pairs, Shared, params};
use crate::{
    app::App,
    body::{self, Asked},
    error::ApiError,
    knowledge::{CircuitFacts, Source},
    store::{KeptUpload, Store, UploadError},
};

/// The most bytes of an uploaded circuit.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What stands before the digest of an upload.
const UPLOAD: &str = "upload:";

/// The longest name of a circuit with its parameters.
const LONGEST_NAME: usize = 100;

/// Characters of what people call an upload.
const LONGEST_LABEL: usize = 80;

/// A circuit, for users.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
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
pub(super) struct Named {
    circuit: String,
}

impl Shown {
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

    fn upload(upload: KeptUpload) -> Self {
        Self {
            name: format!("sha256:{}", upload.digest),
            kind: "upload",
            label: upload.label,
            summary: "uploaded".to_owned(),
            example: format!("{UPLOAD}{}", upload.digest),
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

/// Returns all circuits.
pub(super) fn all(app: &App) -> Result<Vec<Shown>, ApiError> {
    let built_in = catalogue::entries().iter().map(|circuit| {
        let spec = circuit.example.spec.to_owned();
        let facts = app.known(&Source::BuiltIn(spec.clone()));
        Shown::built_in(circuit, spec, facts)
    });
    let uploads = app.store.uploads()?.into_iter().map(Shown::upload);
    Ok(built_in.chain(uploads).collect())
}

/// Finds a circuit that a user names: its source, what people call it, and what is counted of it. A name never becomes a path.
pub(super) fn find(app: &App, name: &str) -> Result<(Source, String, CircuitFacts), ApiError> {
    if let Some(digest) = name.strip_prefix(UPLOAD) {
        let path = (app.store.upload_path(digest))
            .ok_or_else(|| ApiError::bad("an upload has 64 hexadecimal digits"))?;
        let upload = (app.store.upload(digest)?)
            .ok_or_else(|| ApiError::bad("there is no such upload (any more)"))?;
        return Ok((Source::Upload(path), upload.label, upload.facts));
    }
    if !is_name(name) {
        return Err(ApiError::bad(
            "a circuit has a name such as aes128 or add:64, or is an upload",
        ));
    }
    let source = Source::BuiltIn(name.to_owned());
    let facts = app.count(&source)?;
    Ok((source, name.to_owned(), facts))
}

/// Says whether this may be the name of a circuit that comes with the program, and nothing else to it.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:,=.+".contains(&byte);
    name.len() <= LONGEST_NAME
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
    Asked(Named { circuit }): Asked<Named>,
) -> Result<Json<Shown>, ApiError> {
    let shown = app.heavy(move |app| {
        let (source, _, facts) = find(app, &circuit)?;
        let short = circuit.split(':').next().unwrap_or_default();
        let built_in = (catalogue::entries().iter())
            .filter(|known| known.name == short)
            .min_by_key(|known| known.parameters.is_empty() == circuit.contains(':'));
        Ok(match (source, built_in) {
            (Source::BuiltIn(_), Some(known)) => Shown::built_in(known, circuit, Some(facts)),
            _ => {
                let digest = circuit.trim_start_matches(UPLOAD).to_owned();
                let upload = app.store.upload(&digest)?;
                Shown::upload(upload.ok_or_else(|| ApiError::missing("such circuit"))?)
            }
        })
    });
    Ok(Json(shown.await?))
}

pub(super) async fn upload(
    State(app): Shared,
    pairs: Pairs,
    request: Request,
) -> Result<Response, ApiError> {
    let mut params = params(pairs)?;
    let label = label(params.take("name")?.as_deref());
    params.finish()?;
    // Before the body is read, which may take minutes and the most memory of all requests.
    let _permit = app.places.uploads.try_acquire().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many circuits are being uploaded; try again when one is done",
        )
    })?;
    let bytes = body::upload(request, MOST_BYTES).await?;
    let (status, shown) = (app.heavy(move |app| {
        let digest = Store::digest(&bytes);
        if let Some(known) = app.store.upload(&digest)? {
            return Ok((StatusCode::OK, Shown::upload(known)));
        }
        let path = app.store.put_upload(&digest, &bytes).map_err(refused)?;
        let facts = match app.knowledge.count(&Source::Upload(path.clone())) {
            Ok(facts) => facts,
            Err(problem) => {
                app.store.drop_upload(&path);
                let known = path.to_string_lossy();
                return Err(ApiError::bad(problem.replace(&*known, &label)));
            }
        };
        let upload = KeptUpload {
            digest,
            label,
            facts,
        };
        app.store.keep_upload(&upload, bytes.len() as u64)?;
        Ok((StatusCode::CREATED, Shown::upload(upload)))
    }))
    .await?;
    Ok((status, Json(shown)).into_response())
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
        if app.jobs.needs(&format!("{UPLOAD}{digest}")) {
            return Err(ApiError::conflict("a job needs this circuit"));
        }
        match app.store.delete_upload(&digest)? {
            true => Ok(StatusCode::NO_CONTENT),
            false => Err(ApiError::missing("such upload")),
        }
    })
    .await
}

/// Makes of a name of a file what people call a circuit.
fn label(name: Option<&str>) -> String {
    let label: String = (name.unwrap_or_default().chars())
        .filter(|character| !character.is_control() && !matches!(character, '/' | '\\'))
        .take(LONGEST_LABEL)
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
    fn labels_are_for_people() {
        assert_eq!(label(None), "circuit");
        assert_eq!(label(Some("../../etc/passwd\n")), "....etcpasswd");
        assert_eq!(label(Some(&"é".repeat(200))).chars().count(), LONGEST_LABEL);
    }
}
