//! Middleware that checks every request and adds security headers to every answer.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{app::App, error::ApiError};

/// The prefix of the URL paths of the HTTP interface. All other paths are files of the web UI.
const API: &str = "/api/";

/// The URL path of the request that exchanges the token for a session.
const SESSION: &str = "/api/session";

/// Content security policy: the page loads scripts and styles only from this server, sends requests
/// only to it, and cannot be shown in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Rejects requests from other sites and requests without a credential. Adds security headers to
/// every answer.
pub(super) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with(API);
    let mut response = match check(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    if is_api {
        set(header::CACHE_CONTROL, "no-store");
    }
    response
}

fn check(app: &App, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let host = host(request)?;
    // A server without a token must prevent DNS rebinding, in which the name of a foreign site
    // resolves to this machine. With a token, rebinding does not help an attacker, because a page
    // of another origin has neither token nor session.
    if app.token.is_none() && !is_loopback(host) {
        return Err(ApiError::forbidden(
            "expected Host localhost, 127.0.0.1 or [::1]",
        ));
    }
    let path = request.uri().path();
    if !path.starts_with(API) {
        return Ok(());
    }
    check_site(headers, request.method(), host)?;
    let is_open = path == SESSION && *request.method() != Method::DELETE;
    if is_open || app.allows(bearer(headers)) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNAUTHORIZED,
        "a token is required",
    ))
}

fn host(request: &Request) -> Result<&str, ApiError> {
    let mut given = request.headers().get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (Some(host), None) => {
            (host.to_str()).map_err(|_| ApiError::bad("the Host header is not text"))
        }
        _ => Err(ApiError::bad("expected exactly one Host header")),
    }
}

/// Returns whether a host, with or without a port, is `localhost` or a loopback address.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
        Some(_) => return false,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || (name.parse::<IpAddr>()).is_ok_and(|address| address.is_loopback())
}

/// Rejects requests that a page of another site has sent. They are recognized by the headers
/// `Sec-Fetch-Site` and `Origin`.
fn check_site(headers: &HeaderMap, method: &Method, host: &str) -> Result<(), ApiError> {
    let text =
        |name| (headers.get(name)).map(|value: &HeaderValue| value.to_str().unwrap_or("(no text)"));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match text("sec-fetch-site") {
        None | Some("same-origin") => {}
        Some("none") if reads => {}
        Some(site) => {
            let message = format!("a request from another site ({site}) is refused");
            return Err(ApiError::forbidden(message));
        }
    }
    let Some(origin) = text("origin") else {
        return Ok(());
    };
    let own = (origin.strip_prefix("http://")).or_else(|| origin.strip_prefix("https://"));
    match own {
        Some(own) if own.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(ApiError::forbidden(format!(
            "a request from another site ({origin}) is refused"
        ))),
    }
}

/// Returns the credential of a request: the token or the identifier of a session.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    Some(value.strip_prefix("Bearer ")?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_accepted() {
        for own in [
            "localhost",
            "LocalHost:7780",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:80",
            "[::1]evil",
            "::1",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn requests_from_other_sites_are_refused() {
        let site = |pairs: &[(&'static str, &'static str)], method: Method| {
            let headers = (pairs.iter())
                .map(|&(name, value)| {
                    (
                        HeaderName::from_static(name),
                        HeaderValue::from_static(value),
                    )
                })
                .collect();
            check_site(&headers, &method, "127.0.0.1:7780").is_ok()
        };
        assert!(site(&[], Method::POST));
        let own = ("origin", "http://127.0.0.1:7780");
        assert!(site(
            &[own, ("sec-fetch-site", "same-origin")],
            Method::POST
        ));
        assert!(site(&[("sec-fetch-site", "none")], Method::GET));
        assert!(!site(&[("sec-fetch-site", "none")], Method::DELETE));
        for site_name in ["cross-site", "same-site", ""] {
            assert!(!site(&[("sec-fetch-site", site_name)], Method::GET));
        }
        for origin in [
            "null",
            "http://127.0.0.1:7781",
            "http://localhost:7780",
            "http://evil.example",
            "ftp://127.0.0.1:7780",
            "",
        ] {
            assert!(!site(&[("origin", origin)], Method::POST), "{origin}");
        }
    }
}
