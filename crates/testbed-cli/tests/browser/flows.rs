//! Tests of the workflows of users in the web UI.

use serde_json::json;
use thirtyfour::Key;

use crate::{AND_CIRCUIT, BROKEN_CIRCUIT, Browser, Needs, browse, file};

/// The badge of a job that is done.
const DONE: &str = ".title-row .state.done";

/// Submits the form once its prediction is shown, and waits for the view of the job.
pub(super) async fn run(browser: &Browser) {
    browser
        .until("document.querySelector('.forecast svg')")
        .await;
    browser.click("button.primary").await;
    browser.until("location.hash.startsWith('#/job/')").await;
}

/// The names of the transports that a job compares.
const COMPARED: &str =
    "[...document.querySelectorAll('.group .table tbody th')].map((each) => each.innerText.trim())";

#[test]
fn one_click_compares_all_transports() {
    browse(Needs::Paths, &[], async |browser, server| {
        // The form already has a circuit, a network and transports.
        run(browser).await;
        browser
            .until(&format!("document.querySelector('{DONE}')"))
            .await;
        browser.until(&format!("{COMPARED}.length >= 4")).await;
        let compared = browser.js(COMPARED).await;
        for transport in ["tcp", "tcp-striped", "quic", "rudp"] {
            let is_there = compared.as_array().unwrap().contains(&json!(transport));
            assert!(is_there, "{transport}: {compared}");
        }
        browser.sees("h1", "aes128").await;
        browser.sees(".verdict", "was fastest").await;
        // The chart shows the minimum time that the path allows, with a label.
        browser.sees(".group svg", "limit ").await;
        browser
            .until("document.querySelectorAll('.group svg rect title').length >= 8")
            .await;
        browser
            .until(
                "document.querySelector('.view.job section:not(.results) svg[aria-label^=Phases]')",
            )
            .await;
        browser.screenshot("comparison-1280").await;
        browser.is_structured().await;
        // A table that is too wide for the window shows a hint to scroll.
        browser.wide(390).await;
        browser
            .until("[...document.querySelectorAll('.scroll-hint')].some((each) => !each.hidden)")
            .await;
        browser.screenshot("comparison-390").await;
        browser.wide(1280).await;

        // The comparison survives a reload, and the run can be opened from the history.
        browser.reload().await;
        browser.until(&format!("{COMPARED}.length >= 4")).await;
        let total = browser.get("/api/health").await["runs"].clone();
        assert!(total.as_u64() >= Some(12), "{total}");
        browser.click("nav [href='#/history']").await;
        browser.sees(".total", &format!("{total} runs")).await;
        browser.click(".history tbody th a").await;
        browser.sees("h1", "aes128 over ").await;
        browser.sees("dt", "Physical limit").await;
        browser.is_structured().await;
        // The axis of the chart of losses has whole numbers, even if nothing was lost.
        let losses = "[...document.querySelectorAll('svg[aria-label^=Losses] text[text-anchor=end]')].map((each) => each.textContent)";
        browser.until(&format!("{losses}.length >= 2")).await;
        assert_eq!(browser.js(losses).await, json!(["0", "1"]));
        browser.has_no_errors().await;
        // If no runs are selected, "Overlay" compares all runs.
        browser.click("nav [href='#/history']").await;
        browser.sees(".total", &format!("{total} runs")).await;
        browser.press("Overlay").await;
        browser.sees("h1", "Comparison").await;
        browser.sees(".lead", &format!("{total} runs")).await;

        // The jobs survive a restart of the server.
        let restarted = server.take().unwrap().restart(&[]);
        browser.open(&restarted.view("jobs")).await;
        browser.sees("tbody", "done").await;
        browser.sees("tbody a", "aes128").await;
        *server = Some(restarted);
    });
}

#[test]
fn a_job_is_started_with_the_keyboard_only() {
    browse(Needs::Paths, &[], async |browser, _server| {
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        // Types the number of repetitions.
        tab_to(browser, "name", "repetitions").await;
        browser.press_key(Key::Backspace).await;
        browser.press_key(Key::Up).await;
        browser
            .until("document.querySelector('[name=repetitions]').value === '1'")
            .await;
        tab_to(browser, "type", "submit").await;
        // Keyboard users must see the focus.
        let outline = browser
            .js("getComputedStyle(document.activeElement).outlineStyle")
            .await;
        assert_eq!(outline, "solid");
        browser.press_key(Key::Enter).await;
        browser.until("location.hash.startsWith('#/job/')").await;
        browser
            .until(&format!("document.querySelector('{DONE}')"))
            .await;
        // The focus moves to the heading of the new view.
        let focused = browser.js("document.activeElement.tagName").await;
        assert_eq!(focused, "H1");
        browser.has_no_errors().await;
    });
}

/// Presses Tab until an element with this attribute has the focus.
async fn tab_to(browser: &Browser, attribute: &str, value: &str) {
    for _ in 0..100 {
        browser.press_key(Key::Tab).await;
        let focused = browser
            .js(&format!(
                "document.activeElement.getAttribute('{attribute}')"
            ))
            .await;
        if focused == value {
            return;
        }
    }
    panic!("Tab does not lead to {attribute}={value}");
}

#[test]
fn a_run_is_watched_and_cancelled() {
    browse(Needs::Paths, &[], async |browser, _server| {
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        browser.choose("[name=circuit]", "sha256").await;
        browser.choose("[name=scenario]", "mobile").await;
        browser.write("[name=repetitions]", "500").await;
        browser.sees(".what", "2,500 runs").await;
        run(browser).await;
        // The live view shows the throughput with the link rate, the phases of both parties, and
        // counters.
        let live = ".view.job > .card";
        browser
            .until(&format!(
                "document.querySelectorAll('{live} svg path').length >= 2"
            ))
            .await;
        browser.sees(&format!("{live} svg"), "Mbit/s").await;
        browser
            .sees(&format!("{live} svg"), "link rate 20 Mbit/s")
            .await;
        browser
            .until(&format!(
                "document.querySelectorAll('{live} svg[aria-label^=Phases] rect title').length >= 3"
            ))
            .await;
        browser
            .until(&format!(
                "/kB|MB/.test(document.querySelector('{live} .counters').innerText)"
            ))
            .await;
        browser.sees("#running", "1 running").await;
        browser.screenshot("live-1280").await;
        browser.wide(390).await;
        browser.screenshot("live-390").await;
        browser
            .until("document.documentElement.scrollWidth <= 390")
            .await;
        browser.wide(1280).await;
        // Completed runs remain after cancelling.
        browser
            .until("document.querySelector('progress').value >= 1")
            .await;
        browser.press("Cancel").await;
        browser
            .until("document.querySelector('.title-row .state.cancelled')")
            .await;
        browser
            .until(
                "document.querySelectorAll('.view.job > section:last-child tbody tr').length >= 1",
            )
            .await;
        browser.click("nav [href='#/jobs']").await;
        browser.sees("tbody .state", "cancelled").await;
        browser
            .until("document.getElementById('running').hidden")
            .await;
        browser.has_no_errors().await;
    });
}

#[test]
fn uploads_are_checked_and_their_names_are_only_text() {
    // A file name with markup that would change the title. File names cannot contain a slash.
    const NAME: &str = "<img src=x onerror=document.title='spoiled'>.txt";
    browse(Needs::Paths, &[], async |browser, server| {
        let folder = server.as_ref().unwrap().folder().to_owned();
        let broken = file(&folder, "broken.txt", BROKEN_CIRCUIT);
        let good = file(&folder, NAME, AND_CIRCUIT);
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        browser.click(".upload summary").await;
        browser.give(".upload input", &broken).await;
        // The server's message contains the line number and the problem.
        browser.sees(".upload [role=alert]", "broken.txt: ").await;
        browser.sees(".upload [role=alert]", "5:").await;
        browser.sees(".upload [role=alert]", "NOPE").await;
        browser.screenshot("upload-refused-1280").await;
        // The browser itself logs the rejected request.
        let log = browser.log().await;
        assert!(
            log.iter()
                .all(|entry| entry.contains("/api/circuits") && entry.contains("400")),
            "{log:#?}"
        );

        browser.give(".upload input", &good).await;
        browser.sees(".upload .good", NAME).await;
        browser
            .until("document.querySelector('[name=circuit]').value.startsWith('upload:')")
            .await;
        browser.write("[name=repetitions]", "1").await;
        browser
            .until("!document.querySelector('.forecast').classList.contains('stale')")
            .await;
        run(browser).await;
        browser
            .until(&format!("document.querySelector('{DONE}')"))
            .await;
        browser.sees("h1", NAME).await;
        for view in ["history", "jobs", "new"] {
            browser.click(&format!("nav [href='#/{view}']")).await;
            browser
                .until(&format!("document.querySelector('.view.{view} h1')"))
                .await;
            browser
                .until(&format!(
                    "document.querySelector('main').textContent.includes({})",
                    json!(NAME)
                ))
                .await;
            let images = browser
                .js("document.querySelectorAll('main img').length")
                .await;
            assert_eq!(images, 0, "{view}");
        }
        let title = browser.js("document.title").await;
        assert!(!title.as_str().unwrap().contains("spoiled"), "{title}");
        browser.has_no_errors().await;
    });
}

#[test]
fn two_browsers_share_a_server() {
    browse(Needs::Paths, &[], async |one, server| {
        let server = server.as_ref().unwrap();
        Browser::second(
            async |other| {
                other.open(&server.address).await;
                other.until("document.querySelector('.forecast svg')").await;
                // The first job takes long, so the second job waits in the queue.
                one.until("document.querySelector('.forecast svg')").await;
                one.choose("[name=scenario]", "satellite").await;
                one.write("[name=repetitions]", "200").await;
                run(one).await;
                one.until("document.querySelector('.title-row .state.running')")
                    .await;
                run(other).await;
                other.sees(".title-row .state", "waiting").await;
                other.sees(".progress-words", "number 1 in the queue").await;
                // Each browser sees the other's job and may cancel it.
                one.click("nav [href='#/jobs']").await;
                one.until("document.querySelectorAll('tbody tr').length === 2")
                    .await;
                other.open(&server.view("jobs")).await;
                other
                    .until("document.querySelectorAll('tbody tr').length === 2")
                    .await;
                other.click("tbody tr:last-child a").await;
                other
                    .until("document.querySelector('.title-row .state.running')")
                    .await;
                other.press("Cancel").await;
                other
                    .until("document.querySelector('.title-row .state.cancelled')")
                    .await;
                one.until("document.querySelector('tbody .state.cancelled')")
                    .await;
                one.until("document.querySelector('tbody .state.done')")
                    .await;
                one.has_no_errors().await;
                other.has_no_errors().await;
            },
            &server.folder().join("second"),
        )
        .await;
    });
}

#[test]
fn runs_are_filtered_overlaid_exported_and_deleted() {
    browse(Needs::Paths, &[], async |browser, server| {
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        browser.write("[name=repetitions]", "2").await;
        run(browser).await;
        browser
            .until(&format!("document.querySelector('{DONE}')"))
            .await;
        let view = server.as_ref().unwrap().view("history");
        browser.open(&view).await;
        browser.sees(".total", "10 runs").await;
        browser.choose("[name=transport]", "quic").await;
        browser.sees(".total", "2 matching runs").await;
        // The filters are part of the address, so a reload keeps them.
        browser.reload().await;
        browser.sees(".total", "2 matching runs").await;
        browser.screenshot("history-1280").await;

        // Overlays the selected runs in one chart.
        for row in ["tr:nth-child(1)", "tr:nth-child(2)"] {
            browser.click(&format!(".history tbody {row} input")).await;
        }
        browser.sees(".scope", "2 chosen").await;
        browser.press("Overlay").await;
        browser.sees("h1", "Comparison").await;
        browser
            .until("document.querySelectorAll('svg[aria-label^=Throughput] path').length === 2")
            .await;
        browser.screenshot("overlay-1280").await;

        // Saved charts use the light theme.
        browser
            .click("button[aria-label='Save “Total time” as SVG']")
            .await;
        let svg = browser
            .download("aes128-half-gates-eu-us-total-time.svg")
            .await;
        let svg = String::from_utf8(svg).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("total time (ms") && svg.contains(">quic<"),
            "{svg}"
        );
        browser
            .click("button[aria-label='Save “Total time” as PNG']")
            .await;
        let png = browser
            .download("aes128-half-gates-eu-us-total-time.png")
            .await;
        assert!(
            png.starts_with(b"\x89PNG") && png.len() > 5000,
            "{} bytes",
            png.len()
        );

        // Exports the filtered runs and draws the charts of the report.
        browser.open(&format!("{view}?transport=quic")).await;
        browser.sees(".total", "2 matching runs").await;
        browser.press("CSV").await;
        browser.press("JSON").await;
        browser.press("Records").await;
        browser.press("Charts").await;
        browser
            .until("document.querySelectorAll('.chart-list button').length >= 2")
            .await;
        browser.click(".chart-list button").await;
        let ended = browser.downloaded(4).await;
        for kind in ["csv", "json", "jsonl", "svg"] {
            let content = ended
                .iter()
                .find(|(name, _)| name.ends_with(&format!(".{kind}")));
            let content =
                String::from_utf8(content.unwrap_or_else(|| panic!("no {kind}")).1.clone())
                    .unwrap();
            match kind {
                "csv" => assert_eq!(content.lines().count(), 3, "{content}"),
                "jsonl" => assert_eq!(content.lines().count(), 2, "{content}"),
                "json" => {
                    let json: serde_json::Value = serde_json::from_str(&content).unwrap();
                    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
                }
                _ => assert!(content.contains("<svg"), "{content}"),
            }
        }

        // After a confirmation, the selected runs are deleted, and then the filtered ones.
        browser.press("Delete").await;
        browser
            .sees("dialog", "all 2 runs that match the filters")
            .await;
        browser.screenshot("delete-1280").await;
        browser.press("Keep them").await;
        browser.click(".history tbody tr:nth-child(1) input").await;
        browser.press("Delete").await;
        browser.press("Delete 1 run").await;
        browser.sees(".total", "1 matching run").await;
        browser.press("Delete").await;
        browser.press("Delete 1 run").await;
        browser.sees(".empty", "No run matches these filters").await;
        browser.press("Show all runs").await;
        browser.sees(".total", "8 runs").await;
        browser.has_no_errors().await;
    });
}

#[test]
fn programs_run_if_they_are_allowed() {
    browse(
        Needs::Paths,
        &["--allow-programs"],
        async |browser, _server| {
            browser.click("nav [href='#/programs']").await;
            browser.sees("h1", "Own programs").await;
            let program = env!("CARGO_BIN_EXE_transpute-testbed");
            let [a, b] = [
                format!("{program} link serve --unpinned --listen $TRANSPUTE_A:7700"),
                format!(
                    "{program} link send --unpinned --connect $TRANSPUTE_A:7700 --bytes 3000000"
                ),
            ];
            browser
                .write("input[maxlength='80']", "a link of ours")
                .await;
            browser.write("[name=a]", &a).await;
            browser.write("[name=b]", &b).await;
            browser.choose("[name=scenario]", "rebane-europe").await;
            browser.screenshot("programs-1280").await;
            browser.click("button.primary").await;
            browser
                .until(&format!("document.querySelector('{DONE}')"))
                .await;
            browser
                .click(".view.job > section:last-child tbody a")
                .await;
            browser.sees("h1", "a link of ours").await;
            browser.sees(".command", "link send").await;
            browser.sees("section", "exited with code 0").await;
            browser
                .until("document.querySelector('svg[aria-label^=Throughput] path')")
                .await;
            browser.screenshot("programs-run-1280").await;
            browser.has_no_errors().await;
        },
    );
    browse(Needs::Page, &[], async |browser, server| {
        browser.until("document.querySelector('h1')").await;
        assert_eq!(
            browser
                .js("document.getElementById('programs-link').hidden")
                .await,
            true
        );
        browser
            .open(&server.as_ref().unwrap().view("programs"))
            .await;
        browser.sees(".empty", "does not run programs").await;
    });
}

#[test]
fn a_cell_of_the_map_is_measured() {
    browse(Needs::Paths, &[], async |browser, server| {
        let map = server.as_ref().unwrap().view("map");
        let measured = "document.querySelectorAll('svg[aria-label^=\"Which transport\"] [data-cell] title').length";
        browser.open(&map).await;
        browser.sees(".maps .hint", "No stored run").await;
        assert_eq!(browser.js(measured).await, 0);
        browser.press("Run this cell").await;
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        browser.write("[name=repetitions]", "1").await;
        run(browser).await;
        browser
            .until(&format!("document.querySelector('{DONE}')"))
            .await;
        browser.open(&map).await;
        browser.sees(".maps .hint", "From 4 stored runs").await;
        assert_eq!(browser.js(measured).await, 1);
        // The selected cell is the default one, which was run.
        browser.sees(".cell", "was fastest").await;
        browser.sees(".cell th", "Measured (median)").await;
        browser.screenshot("map-measured-1280").await;
        browser.has_no_errors().await;
    });
}
