//! Tests of requests that the server rejects.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::client::Server;
use crate::process::{Process, transpute, write};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const BYTES: (&str, &str) = ("Content-Type", "application/octet-stream");

#[test]
fn invalid_requests_are_refused() {
    let server = Server::start(&[]);
    for (path, body) in [
        ("/api/scenario", "{"),
        ("/api/scenario", "[]"),
        ("/api/scenario", "null"),
        ("/api/scenario", r#"{"preset": 7}"#),
        ("/api/scenario", r#"{"preset": "lan", "surprise": 1}"#),
        ("/api/scenario", r#"{"preset": "/etc/passwd"}"#),
        ("/api/scenario", r#"{"preset": "../../lan.toml"}"#),
        (
            "/api/scenario",
            r#"{"preset": "lan", "set": {"loss": 1e999}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "no-such", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "/etc/passwd", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "../x.txt", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "--help", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "upload:../../etc/passwd", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "scheme": "best"}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": ["pigeon"]}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": []}"#,
        ),
        (
            "/api/predict",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "batch": 0}"#,
        ),
        (
            "/api/jobs",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/jobs",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": ["tcp"], "repetitions": 0}"#,
        ),
        (
            "/api/jobs",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": ["tcp"], "repetitions": 5000000000}"#,
        ),
        (
            "/api/jobs",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": ["tcp"], "timeout_s": 0}"#,
        ),
        (
            "/api/jobs",
            r#"{"kind": "other", "scenario": {"preset": "lan"}}"#,
        ),
        (
            "/api/jobs",
            r#"{"circuit": "aes128", "scenario": {"preset": "lan"}, "transports": ["tcp"], "a": "ls"}"#,
        ),
    ] {
        let answer = server.post(path, body);
        assert_eq!(answer.status, 400, "{path} {body}");
        answer.error();
    }
    for path in [
        "/api/runs?limit=0",
        "/api/runs?limit=501",
        "/api/runs?cursor=x",
        "/api/runs?order=up",
        "/api/runs?transprot=tcp",
        "/api/runs?q=a&q=b",
        "/api/runs?rtt_min=NaN",
        "/api/runs?ids=1;DROP",
        "/api/figure.svg",
        "/api/jobs/1/events?after=x",
    ] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    for path in [
        "/nothing",
        "/api/nothing",
        "/api/runs/1",
        "/api/runs/x",
        "/api/runs/99999999999999999999",
        "/api/jobs/1",
        "/api/jobs/1/events",
        "/api/figure.svg?name=none",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        answer.error();
    }
    assert_eq!(server.ask("PUT", "/api/jobs", &[JSON], b"{}").status, 405);
    assert_eq!(server.ask("POST", "/", &[JSON], b"{}").status, 405);
    // The server rejects requests that are not valid HTTP.
    for nonsense in [
        "\x16\x03\x01\x02\0",
        "GET / HTTP/9.9\r\n\r\n",
        "NONSENSE\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(nonsense.as_bytes()).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"),
            "{nonsense:?}"
        );
    }
    assert_eq!(server.get("/api/health").status, 200);
}

#[test]
fn paths_outside_the_page_are_not_found() {
    let server = Server::start(&[]);
    for path in [
        "/../Cargo.toml",
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/./style.css",
        "/page/../style.css",
        "/style.css%00.txt",
        "/api/../style.css",
        "/%61pi/options",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.text().contains("root:"));
    }
    let zeros = "0".repeat(64);
    for path in [
        "/api/circuits/..%2fhistory.sqlite3".to_owned(),
        "/api/circuits/%2e%2e".to_owned(),
        format!("/api/circuits/{zeros}"),
    ] {
        assert_eq!(server.delete(&path).status, 404, "{path}");
    }
    assert_eq!(server.get("/api/health").status, 200);
}

#[test]
fn large_bodies_are_refused_before_they_are_read() {
    let server = Server::start(&[]);
    let large = format!(r#"{{"toml": "{}"}}"#, "#".repeat(300 << 10));
    assert_eq!(server.post("/api/scenario", &large).status, 413);
    let middling = format!(r#"{{"toml": "{}"}}"#, "#".repeat(100 << 10));
    assert_eq!(server.post("/api/scenario", &middling).status, 413);
    // The size limit applies to a body with a `Content-Length` and to a chunked body.
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = |length: &str| {
        format!(
            "POST /api/circuits HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/octet-stream\r\n{length}\r\n\r\n"
        )
    };
    stream
        .write_all(head("Content-Length: 99999999999").as_bytes())
        .unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(head("Transfer-Encoding: chunked").as_bytes())
        .unwrap();
    let chunk = [b"100000\r\n", &*vec![b'1'; 1 << 20], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 200 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    // The server reads at most about 64 MiB. The rest is in the socket buffers of both ends.
    assert!(sent < 200, "{sent} MiB were accepted");
    let long = "x".repeat(20_000);
    assert_eq!(server.get(&format!("/api/runs?q={long}")).status, 400);
    assert_eq!(server.get("/api/health").status, 200);
}

#[test]
fn the_number_of_concurrent_uploads_is_limited() {
    let server = Server::start(&[]);
    let circuit = b"1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";
    let upload = || {
        server
            .ask("POST", "/api/circuits", &[BYTES], circuit)
            .status
    };
    let started: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let head = "POST /api/circuits HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                        Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            // The server sends this when it starts to read the body.
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert!(line.starts_with("HTTP/1.1 100 "), "{line}");
            stream
        })
        .collect();
    let refused = server.ask("POST", "/api/circuits", &[BYTES], circuit);
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains("too many"));
    // Other requests are still answered.
    let question = r#"{"circuit": "aes128", "scenario": {"preset": "lan"}}"#;
    assert_eq!(server.post("/api/predict", question).status, 200);
    drop(started);
    // The server soon notices that the connections were closed, and accepts uploads again.
    let deadline = Instant::now() + Duration::from_secs(60);
    while upload() == 503 {
        assert!(Instant::now() < deadline, "the permits were not released");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(upload(), 200);
}

#[test]
fn imported_history_is_private_to_the_user() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let records = write(parent.path(), "rows.jsonl", "");
    let import = || {
        let paths = [data.to_str().unwrap(), "--import", &records];
        transpute([&["testbed", "serve", "--data"], &paths[..]].concat())
    };
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let database = data.join("history.sqlite3");
    for _ in 0..2 {
        import().expect(0);
        for entry in fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
        // A database that others can read is made private.
        assert_eq!(mode(&data), 0o700);
        set(&database, 0o644);
    }
    set(&data, 0o777);
    import().fails(3, "mode 0777 lets other users write");
}

#[test]
fn only_valid_circuits_are_stored() {
    let server = Server::start(&[]);
    let circuit = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";
    let upload = |name: &str, body: &str| {
        server.ask(
            "POST",
            &format!("/api/circuits?name={name}"),
            &[BYTES],
            body.as_bytes(),
        )
    };
    let answer = upload("mine.txt", circuit);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let known = answer.json();
    assert_eq!(
        (&known["label"], &known["and_gates"]),
        (&"mine.txt".into(), &1.into())
    );
    let spec = known["example"].as_str().unwrap().to_owned();
    // Uploading the same content again keeps the first label.
    let again = upload("other.txt", circuit);
    assert_eq!(
        (again.status, &again.json()["example"]),
        (200, &known["example"])
    );
    let question = format!(r#"{{"circuit": "{spec}", "scenario": {{"preset": "lan"}}}}"#);
    assert_eq!(
        server.post("/api/predict", &question).json()["workload"]["and_gates"],
        1
    );
    for wrong in [
        "",
        "no circuit",
        "1 3\n2 1 1\n1 1\n\n2 1 0 7 2 AND\n",
        "99999999999 1\n",
    ] {
        let answer = upload("evil.txt", wrong);
        assert_eq!(answer.status, 400, "{wrong:?}");
        let error = answer.error();
        assert!(!error.contains("/circuits/"), "{error}");
    }
    assert_eq!(
        server.ask("POST", "/api/circuits", &[JSON], b"{}").status,
        415
    );
    let all = server.get("/api/circuits").json();
    let uploads = |all: &serde_json::Value| {
        let circuits = all["circuits"].as_array().unwrap();
        circuits
            .iter()
            .filter(|circuit| circuit["kind"] == "upload")
            .count()
    };
    assert_eq!(uploads(&all), 1);
    let digest = spec.strip_prefix("upload:").unwrap();
    assert_eq!(
        server.delete(&format!("/api/circuits/{digest}")).status,
        204
    );
    assert_eq!(
        server.delete(&format!("/api/circuits/{digest}")).status,
        404
    );
    assert_eq!(server.post("/api/predict", &question).status, 400);
}

#[test]
fn programs_are_refused_unless_they_are_allowed() {
    let job =
        r#"{"kind": "programs", "a": "true", "b": "true", "scenario": {"preset": "loopback"}}"#;
    let server = Server::start(&[]);
    let answer = server.post("/api/jobs", job);
    assert_eq!(answer.status, 403);
    assert!(answer.error().contains("--allow-programs"));
    assert_eq!(
        server.get("/api/jobs").json()["jobs"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    // If programs are allowed, a token is required even on a loopback address.
    let server = Server::start(&["--allow-programs"]);
    assert!(server.token.is_some());
    assert_eq!(server.post("/api/jobs", job).status, 401);
    let bearer = format!("Bearer {}", server.token.as_ref().unwrap());
    let headers = [JSON, ("Authorization", bearer.as_str())];
    let long = "x".repeat(5000);
    for wrong in [
        r#"{"kind": "programs", "a": "true", "scenario": {"preset": "loopback"}}"#.to_owned(),
        r#"{"kind": "programs", "a": " ", "b": "true", "scenario": {"preset": "loopback"}}"#.to_owned(),
        format!(r#"{{"kind": "programs", "a": "{long}", "b": "true", "scenario": {{"preset": "loopback"}}}}"#),
        r#"{"kind": "programs", "a": "true", "b": "true", "circuit": "aes128", "scenario": {"preset": "loopback"}}"#.to_owned(),
    ] {
        let answer = server.ask("POST", "/api/jobs", &headers, wrong.as_bytes());
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn silent_clients_do_not_block_the_server() {
    let server = Server::start(&[]);
    let silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let halting: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/api/health").status, 200);
    assert_eq!(server.stop().code, Some(143));
    drop((silent, halting));
}

#[test]
fn an_address_in_use_is_reported() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let args = ["testbed", "serve", "--listen"].map(str::to_owned);
    let all = args.into_iter().chain([
        server.address.to_string(),
        "--data".to_owned(),
        folder.path().to_str().unwrap().to_owned(),
    ]);
    let refused = Process::start(all).finish();
    refused.fails(4, "cannot listen on");
}
