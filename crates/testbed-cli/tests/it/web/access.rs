//! Tests of access to the server: host names, origins, tokens and sessions.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use super::client::Server;
use crate::process::transpute;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn foreign_host_names_are_refused() {
    let server = Server::start(&[]);
    let port = server.address.port();
    let asked = |host: &str| server.ask("GET", "/api/health", &[("Host", host)], b"");
    for own in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "[::1]".to_owned(),
    ] {
        assert_eq!(asked(&own).status, 200, "{own}");
    }
    for other in [
        "evil.example",
        "evil.example:80",
        "10.0.0.1",
        "localhost.evil.example",
    ] {
        let answer = asked(other);
        assert_eq!(answer.status, 403, "{other}");
        assert!(answer.error().contains("localhost"));
        assert_eq!(server.ask("GET", "/", &[("Host", other)], b"").status, 403);
    }
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(b"GET /api/health HTTP/1.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
}

#[test]
fn requests_from_other_sites_are_refused() {
    let server = Server::start(&[]);
    let own = format!("http://{}", server.address);
    let body = br#"{"preset": "lan"}"#;
    let status = |headers: &[(&str, &str)]| {
        let all = [&[JSON], headers].concat();
        server.ask("POST", "/api/scenario", &all, body).status
    };
    assert_eq!(status(&[]), 200);
    assert_eq!(
        status(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]),
        200
    );
    for headers in [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "http://127.0.0.1:1")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "none")],
    ] {
        assert_eq!(status(&headers), 403, "{headers:?}");
    }
    // The server also refuses reads from other sites, and sends no header that permits them.
    let answer = server.ask("GET", "/api/runs", &[("Sec-Fetch-Site", "cross-site")], b"");
    assert_eq!(answer.status, 403);
    let preflight = [
        ("Origin", "http://evil.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let answer = server.ask("OPTIONS", "/api/jobs", &preflight, b"");
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("access-control-allow-origin"), "");
    // The server rejects content types that a form can send without a CORS preflight.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        let answer = server.ask("POST", "/api/scenario", &[("Content-Type", kind)], body);
        assert_eq!(answer.status, 415, "{kind}");
    }
    assert_eq!(server.ask("POST", "/api/scenario", &[], body).status, 415);
}

#[test]
fn the_interface_requires_the_token() {
    let server = Server::start(&["--token"]);
    let token = server.token.clone().unwrap();
    assert!(token.len() >= 32);
    assert_eq!(server.get("/").status, 200);
    for (method, path) in [
        ("GET", "/api/options"),
        ("GET", "/api/runs"),
        ("GET", "/api/export.csv"),
        ("GET", "/api/health"),
        ("GET", "/api/jobs/1/events"),
        ("POST", "/api/jobs"),
        ("DELETE", "/api/runs"),
        ("DELETE", "/api/session"),
        ("GET", "/api/nothing"),
    ] {
        let answer = server.ask(method, path, &[JSON], b"{}");
        assert_eq!(answer.status, 401, "{method} {path}");
        assert!(!answer.text().contains(&token));
    }
    let session = server.get("/api/session").json();
    assert_eq!(
        (&session["token_required"], &session["signed_in"]),
        (&true.into(), &false.into())
    );
    for wrong in ["", "x", &token[1..], &format!("{token}0")] {
        let body = format!(r#"{{"token": "{wrong}"}}"#);
        let answer = server.post("/api/session", &body);
        assert_eq!(
            (answer.status, answer.header("set-cookie")),
            (401, ""),
            "{wrong}"
        );
        let bearer = format!("Bearer {wrong}");
        let answer = server.ask("GET", "/api/runs", &[("Authorization", &bearer)], b"");
        assert_eq!(answer.status, 401);
    }
    let bearer = format!("Bearer {token}");
    let answer = server.ask("GET", "/api/runs", &[("Authorization", &bearer)], b"");
    assert_eq!(answer.status, 200);

    // A session gives the same access as the token. A page of another origin cannot use it.
    let session = format!("Bearer {}", server.sign_in());
    let with = ("Authorization", session.as_str());
    let status = |headers: &[(&str, &str)]| server.ask("GET", "/api/runs", headers, b"").status;
    assert_eq!(status(&[with]), 200);
    let answer = server.ask("GET", "/api/session", &[with], b"");
    assert_eq!(answer.json()["signed_in"], true);
    assert_eq!(status(&[with, ("Sec-Fetch-Site", "cross-site")]), 403);
    // With a token, any host name is accepted.
    assert_eq!(status(&[with, ("Host", "lab.example:7780")]), 200);
}

#[test]
fn a_session_belongs_to_one_server_and_is_no_cookie() {
    let [server, other] = [(), ()].map(|()| Server::start(&["--token"]));
    let session = server.sign_in();
    let status = |server: &Server, name: &str, value: &str| {
        server.ask("GET", "/api/runs", &[(name, value)], b"").status
    };
    let bearer = format!("Bearer {session}");
    assert_eq!(status(&server, "Authorization", &bearer), 200);
    assert_eq!(status(&other, "Authorization", &bearer), 401);
    // Cookies are never accepted, because servers on other ports of this host receive them too.
    let token = server.token.as_ref().unwrap();
    for value in [&session, token] {
        for name in [
            format!("transpute_testbed_{}", server.address.port()),
            "transpute-session".to_owned(),
        ] {
            let cookie = format!("{name}={value}");
            assert_eq!(status(&server, "Cookie", &cookie), 401, "{cookie}");
        }
    }
}

#[test]
fn a_session_ends_when_it_is_signed_out() {
    let server = Server::start(&["--token"]);
    let [session, other] = [(), ()].map(|()| format!("Bearer {}", server.sign_in()));
    let ask = |method: &str, path: &str, bearer: &str| {
        server.ask(method, path, &[("Authorization", bearer)], b"")
    };
    assert_eq!(ask("DELETE", "/api/session", &session).status, 204);
    assert_eq!(ask("GET", "/api/runs", &session).status, 401);
    assert_eq!(
        ask("GET", "/api/session", &session).json()["signed_in"],
        false
    );
    // After the end of one session, other sessions and the token remain valid.
    assert_eq!(ask("GET", "/api/runs", &other).status, 200);
    let token = format!("Bearer {}", server.token.as_ref().unwrap());
    assert_eq!(ask("DELETE", "/api/session", &token).status, 204);
    assert_eq!(ask("GET", "/api/runs", &token).status, 200);
}

#[test]
fn a_public_address_requires_a_token() {
    let server = Server::start(&["--listen", "0.0.0.0:0"]);
    assert!(server.token.is_some());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "a-token-that-i-know-by-heart\n").unwrap();
    let file = file.to_str().unwrap();
    let server = Server::start(&["--token-file", file]);
    assert_eq!(
        server.token.as_deref(),
        Some("a-token-that-i-know-by-heart")
    );
    fs::write(file, "short").unwrap();
    let refused = transpute(["testbed", "serve", "--token-file", file]);
    assert_eq!(refused.code, Some(3));
    assert!(refused.stderr.contains("22 to 256"), "{}", refused.stderr);
}
