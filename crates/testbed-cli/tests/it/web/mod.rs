//! Tests of the HTTP interface of `transpute testbed serve`.

mod access;
mod client;
mod history;
mod jobs;
mod refusals;

use serde_json::Value;

use client::Server;

#[test]
fn the_page_loads_nothing_from_other_hosts() {
    let server = Server::start(&[]);
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    let policy = page.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    // All referenced files exist and are small in total.
    let text = page.text();
    let names = (text.split(['"', '\'']))
        .filter(|name| name.starts_with('/') && name.contains('.'))
        .map(str::to_owned);
    let mut bytes = page.body.len();
    let mut count = 0;
    for name in names {
        let file = server.get(&name);
        assert_eq!(file.status, 200, "{name}");
        bytes += file.body.len();
        count += 1;
    }
    assert!(count >= 2, "{text}");
    assert!(bytes < 300_000, "{bytes}");

    let tag = page.header("etag").to_owned();
    let again = server.ask("GET", "/", &[("If-None-Match", &tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let zipped = server.ask("GET", "/", &[("Accept-Encoding", "gzip, br")], b"");
    assert_eq!(zipped.header("content-encoding"), "gzip");
    assert!(zipped.body.len() < page.body.len());
}

#[test]
fn options_are_listed_and_predicted() {
    let server = Server::start(&[]);
    let options = server.get("/api/options").json();
    let names = |list: &str| -> Vec<String> {
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        options[list].as_array().unwrap().iter().map(name).collect()
    };
    for (list, name) in [
        ("circuits", "aes128"),
        ("schemes", "half-gates"),
        ("transports", "auto"),
        ("transports", "rudp"),
        ("scenarios", "lan"),
    ] {
        assert!(names(list).iter().any(|known| known == name), "{name}");
    }
    assert_eq!(options["programs_allowed"], false);
    assert_eq!(options["defaults"]["scenario"], "eu-us");
    let transports = options["defaults"]["transports"].as_array().unwrap();
    assert!(transports.contains(&"auto".into()), "{transports:?}");
    // The page shows sliders in the order of the JSON text.
    let text = server.get("/api/options").text();
    let sliders = &text[text.find("\"sliders\"").unwrap()..];
    let places = ["rtt_ms", "loss", "rate_mbit", "queue_bytes", "jitter_ms"]
        .map(|name| sliders.find(&format!("\"{name}\":")).unwrap());
    assert!(places.is_sorted(), "{sliders}");

    let question =
        r#"{"circuit": "aes128", "scenario": {"preset": "eu-us", "set": {"rtt_ms": 80}}}"#;
    let answer = server.post("/api/predict", question).json();
    assert_eq!(answer["scenario"], "eu-us,rtt=80");
    let predictions = answer["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 4);
    assert_eq!(predictions[0]["transport"], answer["pick"]);
    for prediction in predictions {
        let number = |name: &str| prediction[name].as_f64().unwrap();
        assert!(number("low_s") < number("seconds") && number("seconds") < number("high_s"));
        // A run takes at least one round trip.
        assert!(number("seconds") > 0.08, "{prediction}");
        let parts = prediction["parts"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        assert!((sum / number("seconds") - 1.0).abs() < 1e-6, "{prediction}");
    }
    let limit = answer["limit"]["limit_ms"].as_f64().unwrap();
    assert!(limit > 80.0 && answer["workload"]["and_gates"] == 6400);

    // Behind a firewall, transports over UDP are excluded with a reason.
    let question =
        r#"{"circuit": "aes128", "scenario": {"preset": "eu-us", "set": {"udp_blocked": true}}}"#;
    let answer = server.post("/api/predict", question).json();
    assert_eq!(answer["excluded"].as_array().unwrap().len(), 2, "{answer}");
    let question = r#"{"circuit": "aes128", "scenario": {"preset": "eu-us", "set": {"udp_blocked": true}}, "transports": ["rudp"]}"#;
    let answer = server.post("/api/predict", question).json();
    assert_eq!(
        (&answer["pick"], &answer["excluded"][0]["transport"]),
        (&Value::Null, &"rudp".into())
    );
}

#[test]
fn the_map_agrees_with_predictions() {
    let server = Server::start(&[]);
    let question =
        r#"{"circuit": "aes128", "rate_mbit": 100, "rtt_ms": [1, 100], "loss": [0, 0.001, 0.05]}"#;
    let map = server.post("/api/map", question).json();
    let model = map["model"].as_array().unwrap();
    assert_eq!((model.len(), model[0].as_array().unwrap().len()), (2, 3));
    let question = r#"{"circuit": "aes128", "scenario": {"preset": "eu-us", "set": {"rtt_ms": 100, "loss": 0.05, "rate_mbit": 100, "queue_bytes": null}}}"#;
    let answer = server.post("/api/predict", question).json();
    assert_eq!(model[1][2]["pick"], answer["pick"]);
    assert_eq!(model[1][2]["seconds"], answer["predictions"][0]["seconds"]);
    assert_eq!(map["measured"].as_array().unwrap().len(), 0);
    for wrong in [
        r#"{"circuit": "aes128", "rtt_ms": [], "loss": [0]}"#.to_owned(),
        format!(
            r#"{{"circuit": "aes128", "rtt_ms": {:?}, "loss": {:?}}}"#,
            vec![1; 30],
            vec![0; 30]
        ),
        r#"{"circuit": "aes128", "rtt_ms": [-1], "loss": [0]}"#.to_owned(),
        r#"{"circuit": "no-such", "rtt_ms": [1], "loss": [0]}"#.to_owned(),
    ] {
        assert_eq!(server.post("/api/map", &wrong).status, 400, "{wrong}");
    }
}
