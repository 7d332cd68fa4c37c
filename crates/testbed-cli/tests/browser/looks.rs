//! Tests of layout, size, predictions, keyboard use and signing in.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use serde_json::{Value, json};
use thirtyfour::Key;

use crate::{Needs, browse};

/// Maximum size of the page with all its files, in bytes.
const MAX_BYTES: u64 = 300_000;

const VIEWS: [&str; 6] = ["new", "jobs", "history", "map", "programs", "job/404404"];

#[test]
fn every_view_fits_wide_and_narrow_in_light_and_dark() {
    browse(Needs::Page, &[], async |browser, server| {
        let server = server.as_ref().unwrap();
        for is_dark in [false, true] {
            browser.dark(is_dark).await;
            for width in [1280, 390] {
                browser.wide(width).await;
                for view in VIEWS {
                    browser.open(&server.view(view)).await;
                    browser
                        .until("document.querySelector('main h1, main .notice')")
                        .await;
                    browser
                        .until("!document.querySelector('main .waiting')")
                        .await;
                    browser.is_structured().await;
                    let light = if is_dark { "dark" } else { "light" };
                    let name = view.replace('/', "-");
                    browser.screenshot(&format!("{name}-{width}-{light}")).await;
                    let wide = browser.js("document.documentElement.scrollWidth").await;
                    assert!(wide.as_u64().unwrap() <= width, "{view}: {wide} of {width}");
                    let paper = browser
                        .js("getComputedStyle(document.documentElement).backgroundColor")
                        .await;
                    let first: u32 = (paper.as_str().unwrap())
                        .trim_start_matches("rgb(")
                        .split(',')
                        .next()
                        .unwrap()
                        .parse()
                        .unwrap();
                    assert_eq!(first < 100, is_dark, "{view}: {paper}");
                    let log = browser.log().await;
                    let is_asked_for =
                        |entry: &String| view == "job/404404" && entry.contains("404");
                    assert!(log.iter().all(is_asked_for), "{view}: {log:#?}");
                }
            }
        }
        // The user's choice overrides the system's and survives a reload.
        browser.choose("#theme", "light").await;
        browser.reload().await;
        browser
            .until("document.documentElement.dataset.theme === 'light'")
            .await;
    });
}

#[test]
fn the_page_is_small_and_loads_only_from_its_server() {
    browse(Needs::Page, &[], async |browser, _server| {
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        let resources = browser
            .js("[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map((each) => [each.name, each.decodedBodySize])")
            .await;
        let resources = resources.as_array().unwrap();
        let origin = browser.js("location.origin").await;
        let mut bytes = 0;
        for resource in resources {
            let name = resource[0].as_str().unwrap();
            assert!(name.starts_with(origin.as_str().unwrap()), "{name}");
            if !name.contains("/api/") {
                bytes += resource[1].as_u64().unwrap();
            }
        }
        assert!(resources.len() > 5 && bytes > 10_000, "{resources:#?}");
        assert!(bytes < MAX_BYTES, "{bytes} bytes");
        let shown = browser
            .js("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            .await;
        eprintln!(
            "{bytes} bytes in {} files, first view after {shown} ms",
            resources.len()
        );
        browser.has_no_errors().await;
    });
}

#[test]
fn predictions_follow_the_conditions() {
    /// The median of the predicted times in milliseconds, from the list of transports.
    const PREDICTED: &str = "[...document.querySelectorAll('.transports .time')].map((each) => /([\\d.]+) (ms|s)/.exec(each.innerText)).filter(Boolean).map(([, number, unit]) => number * (unit === 's' ? 1000 : 1)).sort((a, b) => a - b)[1]";
    browse(Needs::Page, &[], async |browser, _server| {
        browser.until(PREDICTED).await;
        let near = browser.js(PREDICTED).await.as_f64().unwrap();
        let rtt = ".slider:first-child input[type=number]";
        browser.write(rtt, "400").await;
        browser.until(&format!("{PREDICTED} > 400")).await;
        let far = browser.js(PREDICTED).await.as_f64().unwrap();
        assert!(far > near + 200.0, "{near} ms, then {far} ms");
        // Sliders are sorted by importance, and every transport has an explanation.
        let labels = browser
            .js("[...document.querySelectorAll('.slider > label:first-child')].map((each) => each.textContent)")
            .await;
        assert_eq!(
            labels,
            json!([
                "Round-trip time",
                "Loss",
                "Rate",
                "Queue",
                "Jitter, either way"
            ])
        );
        let unexplained = browser
            .js("[...document.querySelectorAll('.transports .name')].filter((each) => !each.querySelector('.meaning')).length")
            .await;
        assert_eq!(unexplained, 0);
        // Transports over UDP are excluded behind a firewall, with a reason.
        browser.click(".sliders > .check input").await;
        browser
            .until("/UDP/.test(document.querySelector('.transports').innerText)")
            .await;
        // Invalid conditions are reported before a run.
        browser.write(rtt, "-5").await;
        browser.sees(".forecast [role=alert]", "-").await;
        browser.press("Back to the preset").await;
        browser.until(&format!("{PREDICTED} < 400")).await;
        // The range is in the unit of the field.
        browser
            .write(".slider:nth-child(2) input[type=number]", "200")
            .await;
        let refused = "Loss: expected a number from 0 to 100 %, found 200 %";
        browser.sees(".forecast [role=alert]", refused).await;
        assert_eq!(
            browser
                .js("document.querySelector('button.primary').disabled")
                .await,
            true
        );
        browser.press("Back to the preset").await;
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        // Errors in a scenario file are reported with line and field.
        browser.click(".switcher label:last-child span").await;
        let text = "textarea";
        browser.write(text, "rtt_ms = 300\nrate_mbit = 1000").await;
        browser.until(&format!("{PREDICTED} > 300")).await;
        browser.press("Check").await;
        browser.sees(".notice.good", "RTT 300 ms").await;
        browser.write(text, "rtt_ms = 300\nlos = 1").await;
        browser.sees(".forecast [role=alert]", "los").await;
    });
}

#[test]
fn cells_of_the_map_are_selected_with_the_keyboard() {
    browse(Needs::Page, &[], async |browser, server| {
        browser.open(&server.as_ref().unwrap().view("map")).await;
        browser
            .until(
                "document.querySelectorAll('[data-cell] polygon, [data-cell] circle').length >= 90",
            )
            .await;
        // Both axes have a unit.
        for label in ["round-trip time (ms)", "loss, each way (%)"] {
            browser.sees(".maps svg", label).await;
        }
        let heading = "document.querySelector('.cell h2').innerText";
        let before = browser.js(heading).await;
        browser.js("document.querySelector('.maps').focus()").await;
        browser.press_key(Key::Right).await;
        let right = browser.js(heading).await;
        browser.press_key(Key::Up).await;
        let up = browser.js(heading).await;
        assert!(before != right && right != up, "{before} {right} {up}");
        browser.sees(".cell", "The chooser picks ").await;
        let number = browser
            .js("document.querySelectorAll('.cell tbody tr').length")
            .await;
        assert!(number.as_u64() >= Some(2), "{number}");
        // The form for a new run has the conditions of the selected cell.
        browser.press("Run this cell").await;
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        let rtt: Value = browser
            .js("document.querySelector('.slider:first-child input[type=number]').value")
            .await;
        let asked: f64 = rtt.as_str().unwrap().parse().unwrap();
        let told = up.as_str().unwrap().split(' ').next().unwrap().to_owned();
        assert_eq!(told.parse::<f64>().unwrap(), asked);
        browser.has_no_errors().await;
    });
}

#[test]
fn a_token_is_required_once_per_browser() {
    browse(Needs::Page, &["--token"], async |browser, server| {
        let server = server.as_ref().unwrap();
        // The token in the printed address is removed from the address bar.
        browser
            .until("document.querySelector('h1')?.innerText === 'New run'")
            .await;
        let address = browser.js("location.href").await;
        assert!(!address.as_str().unwrap().contains("token"), "{address}");
        // The session remains after opening the address without the token.
        let plain = server.origin();
        browser.open(plain).await;
        browser
            .until("document.querySelector('h1')?.innerText === 'New run'")
            .await;
        // A server on another port of this host receives neither the session nor a cookie.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let neighbor = format!("http://{}/", listener.local_addr().unwrap());
        let received = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = (head.by_ref().map(Result::unwrap))
                .take_while(|line| !line.is_empty())
                .collect();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
            stream.write_all(answer).unwrap();
            head.join("\n").to_lowercase()
        });
        browser.open(&neighbor).await;
        assert_eq!(browser.js("localStorage.length").await, 0);
        assert_eq!(browser.js("document.cookie").await, "");
        let received = received.join().unwrap();
        for header in ["cookie:", "authorization:"] {
            assert!(!received.contains(header), "{received}");
        }
        // Signing out also ends the session on the server.
        browser.open(plain).await;
        browser
            .until("!document.getElementById('sign-out').hidden")
            .await;
        browser.wide(390).await;
        browser.screenshot("signed-in-390").await;
        browser
            .until("document.documentElement.scrollWidth <= 390")
            .await;
        browser.wide(1280).await;
        let session = browser.js("localStorage['transpute-session']").await;
        browser.press("Sign out").await;
        browser.sees("h1", "Sign in").await;
        let header = format!("Bearer {}", session.as_str().unwrap());
        let script = format!(
            "fetch('/api/options', {{headers: {{Authorization: {}}}}}).then((answer) => answer.status)",
            json!(header)
        );
        assert_eq!(browser.promise(&script).await, 401);
        // Another browser has to sign in.
        crate::driver::Browser::second(
            async |other| {
                other.open(plain).await;
                other.sees("h1", "Sign in").await;
                assert!(other.get("/api/options").await["error"].is_string());
                other.write("#token", "0123").await;
                other.click("form button").await;
                other
                    .until("document.querySelector('form [role=alert]')")
                    .await;
                other.screenshot("sign-in-1280").await;
                let token = server.address.split("token=").nth(1).unwrap();
                other.write("#token", token).await;
                other.click("form button").await;
                other
                    .until("document.querySelector('h1')?.innerText === 'New run'")
                    .await;
            },
            &server.folder().join("second"),
        )
        .await;
    });
}
