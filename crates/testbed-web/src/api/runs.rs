//! Handlers that list, show and delete the runs of the history.

use axum::{
    Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{QueryPairs, Shared, number, params};
use crate::{
    body::JsonBody,
    error::ApiError,
    store::{Column, Detailed, Filter, Order, Params, check_ids},
};

/// Maximum number of runs in one page of the list.
pub(super) const MAX_PAGE: usize = 500;

/// The runs to delete. They are given by their numbers, or by a filter and the expected number of
/// matching runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteRequest {
    ids: Option<Vec<i64>>,
    filter: Option<Map<String, Value>>,
    expect: Option<i64>,
}

pub(super) async fn list(State(app): Shared, pairs: QueryPairs) -> Result<Json<Value>, ApiError> {
    let mut params = params(pairs)?;
    let limit = params.read::<usize>("limit")?.unwrap_or(50);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::bad(format!(
            "limit: {limit} is not between 1 and {MAX_PAGE}"
        )));
    }
    let after = params.read::<i64>("cursor")?;
    let order = match params.take("order")?.as_deref() {
        None | Some("newest") => Order::Newest,
        Some("oldest") => Order::Oldest,
        Some(_) => return Err(ApiError::bad("order: expected newest or oldest")),
    };
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    let (page, total) = (app.blocking(move |app| {
        let page = app.store.page(&filter, order, after, limit)?;
        Ok((page, app.store.count(&filter)?))
    }))
    .await?;
    let next = page.next.map(|id| id.to_string());
    Ok(Json(
        json!({ "runs": page.runs, "next": next, "total": total }),
    ))
}

pub(super) async fn facets(State(app): Shared, pairs: QueryPairs) -> Result<Json<Value>, ApiError> {
    let mut params = params(pairs)?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    app.blocking(move |app| {
        let facet = |column| app.store.facet(&filter, column);
        Ok(Json(json!({
            "circuits": facet(Column::Circuit)?,
            "schemes": facet(Column::Scheme)?,
            "transports": facet(Column::Transport)?,
            "scenarios": facet(Column::Scenario)?,
            "states": facet(Column::State)?,
            "kinds": facet(Column::Kind)?,
        })))
    })
    .await
}

pub(super) async fn get(State(app): Shared, Path(id): Path<String>) -> Result<Response, ApiError> {
    let id = number(&id, "run")?;
    let found = (app.blocking(move |app| Ok(app.store.detailed(id)?))).await?;
    let Detailed { run, detail } = found.ok_or_else(|| ApiError::missing(format!("run {id}")))?;
    let run = serde_json::to_string(&run).map_err(|error| ApiError::internal(&error))?;
    // The details are the text of a JSON object. Its fields are appended after the field `run`,
    // without parsing it.
    let body = match detail.strip_prefix('{') {
        Some(rest) if rest.trim() != "}" => format!("{{\"run\":{run},{rest}"),
        _ => format!("{{\"run\":{run}}}"),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

pub(super) async fn delete_one(
    State(app): Shared,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = number(&id, "run")?;
    let deleted = app.blocking(move |app| Ok(app.store.delete(&Filter::of_ids(vec![id]), None)?));
    match deleted.await? {
        Ok(1..) => Ok(StatusCode::NO_CONTENT),
        _ => Err(ApiError::missing(format!("run {id}"))),
    }
}

pub(super) async fn delete(
    State(app): Shared,
    JsonBody(request): JsonBody<DeleteRequest>,
) -> Result<Json<Value>, ApiError> {
    let (filter, expected) = match (request.ids, request.filter, request.expect) {
        (Some(ids), None, None) => (Filter::of_ids(check_ids(ids)?), None),
        (None, Some(filter), Some(expected)) => {
            let pairs = filter.into_iter().map(|(name, value)| match value {
                Value::String(text) => Ok((name, text)),
                Value::Number(number) => Ok((name, number.to_string())),
                _ => Err(ApiError::bad(format!("{name}: expected text or a number"))),
            });
            let mut params = Params::new(pairs.collect::<Result<_, _>>()?);
            let filter = Filter::parse(&mut params)?;
            params.finish()?;
            (filter, Some(expected))
        }
        _ => {
            return Err(ApiError::bad(
                "expected either ids, or filter with expect, the number of matching runs",
            ));
        }
    };
    let deleted = app.blocking(move |app| Ok(app.store.delete(&filter, expected)?));
    match deleted.await? {
        Ok(deleted) => Ok(Json(json!({ "deleted": deleted }))),
        Err(total) => Err(ApiError::conflict(
            "the number of matching runs has changed; nothing was deleted",
        )
        .with("total", total)),
    }
}
