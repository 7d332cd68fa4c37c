//! The HTTP interface that docs/testbed-http.md describes.

mod circuits;
mod compare;
mod export;
mod figures;
mod jobs;
mod map;
mod options;
mod predict;
mod runs;
mod session;
mod stream;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, rejection::QueryRejection},
    http::{HeaderMap, StatusCode},
    middleware,
    routing::{delete, get, post},
};

use super::{app::App, assets, error::ApiError, guard::guard, store::Params};

type Shared = axum::extract::State<Arc<App>>;

/// The query parameters of a request, in order.
type QueryPairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Returns the router of all URL paths. [`guard`] checks every request.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/api/health", get(options::health))
        .route("/api/options", get(options::options))
        .route(
            "/api/session",
            get(session::get)
                .post(session::post)
                .delete(session::delete),
        )
        .route("/api/scenario", post(options::scenario))
        .route("/api/circuits", get(circuits::list).post(circuits::upload))
        .route("/api/circuits/inspect", post(circuits::inspect))
        .route("/api/circuits/{digest}", delete(circuits::delete))
        .route("/api/predict", post(predict::predict))
        .route("/api/map", post(map::map))
        .route("/api/jobs", get(jobs::list).post(jobs::submit))
        .route("/api/jobs/{id}", get(jobs::get).delete(jobs::cancel))
        .route("/api/jobs/{id}/events", get(stream::events))
        .route("/api/jobs/{id}/comparison", get(compare::of_job))
        .route("/api/runs", get(runs::list).delete(runs::delete))
        .route("/api/runs/{id}", get(runs::get).delete(runs::delete_one))
        .route("/api/facets", get(runs::facets))
        .route("/api/compare", get(compare::compare))
        .route("/api/export.json", get(export::json))
        .route("/api/export.jsonl", get(export::lines))
        .route("/api/export.csv", get(export::csv))
        .route("/api/figures", get(figures::list))
        .route("/api/figure.svg", get(figures::svg))
        .route("/api/figure.png", get(figures::png));
    for asset in assets::ready() {
        let path = asset.path;
        let answer = move |headers: HeaderMap| async move { asset.answer(&headers) };
        router = router.route(path, get(answer));
    }
    router
        .fallback(async || ApiError::missing("such address"))
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this address does not support this method",
            )
        })
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

fn params(pairs: QueryPairs) -> Result<Params, ApiError> {
    match pairs {
        Ok(Query(pairs)) => Ok(Params::new(pairs)),
        Err(error) => Err(ApiError::bad(error)),
    }
}

/// Parses a number in a URL path.
fn number(text: &str, what: &str) -> Result<i64, ApiError> {
    (text.parse()).map_err(|_| ApiError::missing(format!("{what} {text:?}")))
}
