//! Tests of all views with the accessibility checker axe-core, which `npm ci` installs.

use std::{fs, path::Path, process::Command, sync::LazyLock};

use serde_json::{Value, json};
use transpute_netem::testing::skip;

use crate::{Browser, Needs, Server, browse, flows};

/// The folder with the pinned version and the checksum of axe-core.
const MANIFEST_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/axe");

/// The rules: WCAG 2.2, levels A and AA, and axe-core's best practices.
const RULES: [&str; 6] = [
    "wcag2a",
    "wcag2aa",
    "wcag21a",
    "wcag21aa",
    "wcag22aa",
    "best-practice",
];

/// The source of axe-core, or the reason why it cannot be installed. It is installed once for all
/// tests, because they run in parallel.
static AXE: LazyLock<Result<String, String>> = LazyLock::new(install);

/// Installs axe-core in the folder for temporary files of tests, so that the repository stays
/// clean. If the pinned version is already there, the network is not used.
fn install() -> Result<String, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    fs::create_dir_all(&folder).unwrap();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let lock = read(&Path::new(MANIFEST_DIR).join("package-lock.json"));
    let source = folder.join("node_modules/axe-core/axe.min.js");
    if read(&folder.join("package-lock.json")) != lock || !source.exists() {
        // The lock file is copied last, because its copy means that the installation is complete.
        let _ = fs::remove_file(folder.join("package-lock.json"));
        for name in ["package.json", ".npmrc", "package-lock.json"] {
            fs::copy(Path::new(MANIFEST_DIR).join(name), folder.join(name)).unwrap();
        }
        let outcome = Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .output();
        let problem = match outcome {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(format!("npm: {error}")),
        };
        if let Some(problem) = problem {
            let _ = fs::remove_file(folder.join("package-lock.json"));
            return Err(format!("axe-core cannot be installed: {problem}"));
        }
    }
    fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))
}

/// Returns the source of axe-core. Calls [`skip`] and returns `None` if it cannot be installed.
fn axe() -> Option<&'static str> {
    AXE.as_deref().map_err(skip).ok()
}

/// Checks a view, which is already loaded, in light and dark, wide and narrow.
async fn check(browser: &Browser, axe: &str, view: &str) {
    browser.execute(axe).await;
    let run = format!(
        "axe.run(document, {}).then(({{violations, passes}}) => [passes.length, violations.map(({{id, help, nodes}}) => [id, help, nodes.map((each) => each.html.slice(0, 200))])])",
        json!({"runOnly": RULES, "resultTypes": ["violations"]})
    );
    for is_dark in [false, true] {
        browser.dark(is_dark).await;
        for width in [1280, 390] {
            browser.wide(width).await;
            // Colours in the middle of a transition have a lower contrast.
            browser.until("document.getAnimations().length === 0").await;
            let found = browser.promise(&run).await;
            // Rules that pass show that axe-core has seen the view.
            assert!(found[0].as_u64() > Some(10), "{view}: {found}");
            let place = format!("{view}, {width} px, dark: {is_dark}");
            assert_eq!(found[1], json!([]), "{place}: {found:#}");
        }
    }
    browser.dark(false).await;
    browser.wide(1280).await;
}

/// Opens a view and checks it as soon as an element of it is shown.
async fn visit(browser: &Browser, axe: &str, server: &Server, view: &str, element: &str) {
    browser.open(&server.view(view)).await;
    browser
        .until(&format!("document.querySelector('{element}')"))
        .await;
    check(browser, axe, view).await;
}

#[test]
fn views_without_runs_are_accessible() {
    let Some(axe) = axe() else { return };
    let args = ["--token", "--allow-programs"];
    browse(Needs::Page, &args, async |browser, server| {
        let server = server.as_ref().unwrap();
        for (view, element) in [
            ("new", ".forecast svg"),
            ("jobs", ".empty"),
            ("history", ".empty"),
            ("map", "[data-cell]"),
            ("programs", "form"),
            ("compare", "h1"),
            ("job/404404", "main .notice.bad"),
        ] {
            visit(browser, axe, server, view, element).await;
        }
        // The parts of the form that are closed or in another mode, and an error in a field.
        browser.open(&server.view("new")).await;
        browser
            .until("document.querySelector('.forecast svg')")
            .await;
        browser
            .js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            .await;
        let loss = ".slider:nth-child(2) input[type=number]";
        browser.write(loss, "200").await;
        browser.sees(".forecast [role=alert]", "Loss").await;
        check(browser, axe, "new, with an error").await;
        browser.click(".switcher label:last-child span").await;
        check(browser, axe, "new, with a scenario file").await;
        browser.press("Sign out").await;
        browser.sees("h1", "Sign in").await;
        check(browser, axe, "sign in").await;
    });
}

#[test]
fn views_with_runs_are_accessible() {
    let Some(axe) = axe() else { return };
    browse(Needs::Paths, &[], async |browser, server| {
        let server = server.as_ref().unwrap();
        browser.write("[name=repetitions]", "1").await;
        flows::run(browser).await;
        browser
            .until("document.querySelector('.title-row .state.done')")
            .await;
        check(browser, axe, "job").await;
        visit(browser, axe, server, "jobs", "tbody a").await;
        visit(browser, axe, server, "history", ".history tbody a").await;
        browser
            .js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            .await;
        browser.press("Charts").await;
        browser.until("document.querySelector('.chart-list')").await;
        browser.press("Delete").await;
        browser
            .until("document.querySelector('dialog[open]')")
            .await;
        check(browser, axe, "history, with the question before deleting").await;
        browser.press("Keep them").await;
        check(browser, axe, "history, with the charts").await;
        let runs = browser.get("/api/runs").await["runs"].clone();
        let ids: Vec<_> = (runs.as_array().unwrap().iter())
            .map(|run: &Value| run["id"].to_string())
            .collect();
        let run = format!("run/{}", ids[0]);
        visit(browser, axe, server, &run, "svg[aria-label^=Losses]").await;
        let comparison = format!("compare?ids={}", ids.join(","));
        let timelines = "svg[aria-label^=Throughput] path";
        visit(browser, axe, server, &comparison, timelines).await;
        visit(browser, axe, server, "map", "[data-cell]").await;
    });
}
