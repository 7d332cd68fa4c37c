//! Handlers that draw the charts of reports for the runs that match a filter.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use transpute_testbed::{
    record::RunRecord,
    report::{
        chart::{Figure, png as draw},
        figures,
    },
};

use super::{QueryPairs, Shared, compare::MAX_RUNS, params};
use crate::{app::App, error::ApiError, store::Filter};

#[derive(Deserialize)]
struct WithRecord {
    #[serde(rename = "row")]
    record: Option<RunRecord>,
}

pub(super) async fn list(State(app): Shared, pairs: QueryPairs) -> Result<Json<Value>, ApiError> {
    let mut params = params(pairs)?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    app.heavy(move |app| {
        let figures: Vec<_> = (all(app, &filter)?.iter())
            .map(|(name, figure)| json!({ "name": name, "title": figure.title }))
            .collect();
        Ok(Json(json!({ "figures": figures })))
    })
    .await
}

pub(super) async fn svg(State(app): Shared, pairs: QueryPairs) -> Result<Response, ApiError> {
    one(app, pairs, "svg", "image/svg+xml", |figure| {
        Ok(figure.svg().into_bytes())
    })
    .await
}

pub(super) async fn png(State(app): Shared, pairs: QueryPairs) -> Result<Response, ApiError> {
    one(app, pairs, "png", "image/png", |figure| {
        draw(&figure.svg()).map_err(|error| ApiError::internal(&error))
    })
    .await
}

async fn one(
    app: std::sync::Arc<App>,
    pairs: QueryPairs,
    extension: &str,
    kind: &'static str,
    draw: impl FnOnce(&Figure) -> Result<Vec<u8>, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let mut params = params(pairs)?;
    let name = (params.take("name")?).ok_or_else(|| ApiError::bad("parameter name is missing"))?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    let (name, drawn) = (app.heavy(move |app| {
        let figures = all(app, &filter)?;
        let found = figures.iter().find(|(known, _)| *known == name);
        let (name, figure) = found.ok_or_else(|| ApiError::missing("such figure of these runs"))?;
        // The file name comes from the server's own list, not from the request.
        Ok((name.clone(), draw(figure)?))
    }))
    .await?;
    let disposition = format!("attachment; filename=\"{name}.{extension}\"");
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, drawn).into_response())
}

fn all(app: &App, filter: &Filter) -> Result<Vec<(String, Figure)>, ApiError> {
    let found = app.store.details(filter, None, MAX_RUNS + 1)?;
    if found.len() > MAX_RUNS {
        return Err(ApiError::bad(format!(
            "more than {MAX_RUNS} runs; narrow the filter"
        )));
    }
    let mut records = Vec::with_capacity(found.len());
    for detailed in &found {
        let WithRecord { record } =
            serde_json::from_str(&detailed.detail).map_err(|error| ApiError::internal(&error))?;
        records.extend(record);
    }
    Ok(figures(&records))
}
