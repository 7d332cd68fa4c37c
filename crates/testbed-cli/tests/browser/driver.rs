//! Controls Chromium over WebDriver for the tests.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use thirtyfour::{
    By, ChromiumLikeCapabilities, DesiredCapabilities, Key, LoggingPrefsLogLevel, WebDriver,
    WebElement, error::WebDriverResult,
};

/// Maximum time that a test waits for a change of the page or for a file.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Interval at which a condition is checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Command-line flags of Chromium. They disable the sandbox, because tests may run as root, and all
/// background traffic.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,900",
];

/// A chromedriver process. Its process group, which includes the browser, is killed on drop.
struct Chromedriver {
    child: Child,
    address: String,
}

impl Chromedriver {
    /// Starts chromedriver. It listens with IPv4 and IPv6 on one port that it chooses, and ends if
    /// the port is in use in one of them. Then it is started again.
    fn start() -> Self {
        (0..10)
            .find_map(|_| Self::try_start())
            .expect("chromedriver ended ten times before it printed its port")
    }

    fn try_start() -> Option<Self> {
        let child = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut this = Self {
            child,
            address: String::new(),
        };
        let lines = BufReader::new(this.child.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| {
            let port = line.split_once("successfully on port ")?.1;
            Some(port.trim_end_matches('.').to_owned())
        })?;
        this.address = format!("http://127.0.0.1:{port}");
        Some(this)
    }
}

impl Drop for Chromedriver {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A browser without history, cookies or storage.
pub(super) struct Browser {
    driver: WebDriver,
    /// The folder of downloads.
    pub(super) downloads: PathBuf,
}

/// Runs a test with a browser, which is ended even if the test fails.
pub(super) fn with_browser(folder: &Path, test: impl AsyncFnOnce(&Browser)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let chromedriver = Chromedriver::start();
    let browser = runtime.block_on(Browser::start(&chromedriver, folder));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(test(&browser))));
    if outcome.is_err() {
        let name = std::thread::current()
            .name()
            .unwrap_or("test")
            .replace("::", "-");
        runtime.block_on(browser.screenshot(&format!("failed-{name}")));
    }
    let _ = runtime.block_on(browser.driver.quit());
    if let Err(panicked) = outcome {
        panic::resume_unwind(panicked);
    }
}

impl Browser {
    async fn start(chromedriver: &Chromedriver, folder: &Path) -> Self {
        let mut wanted = DesiredCapabilities::chrome();
        for flag in FLAGS {
            wanted.add_arg(flag).unwrap();
        }
        wanted
            .set_browser_log_level(LoggingPrefsLogLevel::All)
            .unwrap();
        let driver = WebDriver::new(&chromedriver.address, wanted).await.unwrap();
        let downloads = folder.join("downloads");
        fs::create_dir_all(&downloads).unwrap();
        let browser = Self { driver, downloads };
        let place = json!({"behavior": "allow", "downloadPath": browser.downloads});
        browser.cdp("Browser.setDownloadBehavior", place).await;
        browser.wide(1280).await;
        browser
    }

    /// Runs a test with a second browser, which has its own cookies and storage.
    pub(super) async fn second(test: impl AsyncFnOnce(&Self), folder: &Path) {
        let chromedriver = Chromedriver::start();
        let browser = Self::start(&chromedriver, folder).await;
        test(&browser).await;
        let _ = browser.driver.quit().await;
    }

    async fn cdp(&self, method: &str, params: Value) -> Value {
        (self.driver.cdp().send_raw(method, params).await).unwrap()
    }

    /// Sets the width of the page, in CSS pixels.
    pub(super) async fn wide(&self, width: u64) {
        self.size(width, 900).await;
    }

    async fn size(&self, width: u64, height: u64) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.cdp("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Emulates the colour scheme of the system.
    pub(super) async fn dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.cdp("Emulation.setEmulatedMedia", features).await;
    }

    /// Opens a blank page and then the address, so that the web UI starts again even if only the
    /// part after `#` differs.
    pub(super) async fn open(&self, address: &str) {
        self.driver.goto("about:blank").await.unwrap();
        self.driver.goto(address).await.unwrap();
    }

    pub(super) async fn reload(&self) {
        self.driver.refresh().await.unwrap();
    }

    /// Evaluates a JavaScript expression.
    pub(super) async fn js(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        let result = self.driver.execute(script, Vec::new()).await;
        result
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
            .json()
            .clone()
    }

    /// Executes a script in the page, which its content security policy would not load.
    pub(super) async fn execute(&self, script: &str) {
        self.driver.execute(script, Vec::new()).await.unwrap();
    }

    /// Evaluates a JavaScript expression that is a promise, and returns its value.
    pub(super) async fn promise(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; ({expression}).then(done, (error) => done(String(error)));"
        );
        let result = self.driver.execute_async(script, Vec::new()).await;
        result.unwrap().json().clone()
    }

    /// Sends a request from the page, with the page's session.
    pub(super) async fn get(&self, path: &str) -> Value {
        let expression = format!(
            "fetch({}, {{headers: {{Authorization: `Bearer ${{localStorage['transpute-session']}}`}}}}).then((answer) => answer.json())",
            json!(path)
        );
        self.promise(&expression).await
    }

    /// Waits until a JavaScript expression is true.
    #[track_caller]
    pub(super) fn until<'a>(&'a self, expression: &'a str) -> impl Future<Output = ()> + 'a {
        let caller = panic::Location::caller();
        async move {
            let deadline = Instant::now() + TIMEOUT;
            while self.js(&format!("Boolean({expression})")).await != json!(true) {
                if Instant::now() > deadline {
                    let text = self.js("document.body.innerText").await;
                    let log = self.log().await;
                    panic!("{caller}: not true in time: {expression}\nlog: {log:?}\npage: {text}");
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// Waits until an element contains a text.
    #[track_caller]
    pub(super) fn sees<'a>(&'a self, css: &'a str, text: &'a str) -> impl Future<Output = ()> + 'a {
        let (css, text) = (json!(css), json!(text));
        let expression = format!(
            "[...document.querySelectorAll({css})].some((each) => (each.innerText ?? each.textContent).includes({text}))"
        );
        let caller = panic::Location::caller();
        async move {
            let deadline = Instant::now() + TIMEOUT;
            while self.js(&expression).await != json!(true) {
                if Instant::now() > deadline {
                    let page = self.js("document.body.innerText").await;
                    panic!("{caller}: no {text} in {css}\npage: {page}");
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    pub(super) async fn find(&self, css: &str) -> WebElement {
        let found = self.driver.find(By::Css(css)).await;
        found.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    /// Clicks an element as soon as it exists.
    pub(super) async fn click(&self, css: &str) {
        self.clicked(&By::Css(css)).await;
    }

    /// Clicks the button or link with this text as soon as it exists.
    pub(super) async fn press(&self, text: &str) {
        let path = format!("//*[self::button or self::a][normalize-space()='{text}']");
        self.clicked(&By::XPath(path)).await;
    }

    async fn clicked(&self, by: &By) {
        self.persist(by, async |found| {
            // The element is centred, because a sticky element may cover the edge of the window.
            let script = "arguments[0].scrollIntoView({block: 'center'})";
            let element = vec![found.to_json()?];
            self.driver.execute(script, element).await?;
            found.click().await
        })
        .await;
    }

    /// Replaces the text of a field as soon as the field exists.
    pub(super) async fn write(&self, css: &str, text: &str) {
        self.persist(&By::Css(css), async |field| {
            field.clear().await?;
            field.send_keys(text).await
        })
        .await;
    }

    /// Calls `act` with an element. Repeats the call if the page has replaced the element in the
    /// meantime.
    async fn persist(&self, by: &By, act: impl AsyncFn(WebElement) -> WebDriverResult<()>) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let outcome = match self.driver.find(by.clone()).await {
                Ok(found) => act(found).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => return,
                Err(error) => assert!(Instant::now() < deadline, "{by:?}: {error}"),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Selects an option by its value.
    pub(super) async fn choose(&self, css: &str, value: &str) {
        self.click(&format!("{css} option[value=\"{value}\"]"))
            .await;
    }

    /// Sets the file of a file input, which need not be visible.
    pub(super) async fn give(&self, css: &str, path: &str) {
        self.find(css).await.send_keys(path).await.unwrap();
    }

    /// Presses a key on the focused element.
    pub(super) async fn press_key(&self, key: Key) {
        let strokes = self.driver.action_chain().send_keys(key + "");
        strokes.perform().await.unwrap();
    }

    /// Saves a screenshot of the whole page to `target/screenshots`.
    pub(super) async fn screenshot(&self, name: &str) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        fs::create_dir_all(&folder).unwrap();
        let width = self.js("innerWidth").await;
        let height = self.js("document.documentElement.scrollHeight").await;
        // The window gets the height of the whole page. Chromium limits the height of screenshots.
        let height = height.as_u64().unwrap().clamp(900, 8000);
        self.size(width.as_u64().unwrap(), height).await;
        let png = self.driver.screenshot_as_png().await.unwrap();
        fs::write(folder.join(format!("{name}.png")), png).unwrap();
        self.size(width.as_u64().unwrap(), 900).await;
    }

    /// Returns the warnings and errors in the browser's log since the last call.
    pub(super) async fn log(&self) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap();
        (log.into_iter())
            .filter(|entry| entry.level == "SEVERE" || entry.level == "WARNING")
            .map(|entry| entry.message)
            .collect()
    }

    /// Checks that the browser logged no warning or error, such as a blocked resource.
    #[track_caller]
    pub(super) fn has_no_errors(&self) -> impl Future<Output = ()> + '_ {
        let caller = panic::Location::caller();
        async move {
            let log = self.log().await;
            assert!(log.is_empty(), "{caller}: {log:#?}");
        }
    }

    /// Checks that headings are nested under one `h1` and that every table column has a heading.
    #[track_caller]
    pub(super) fn is_structured(&self) -> impl Future<Output = ()> + '_ {
        const HEADINGS: &str = "[...document.querySelectorAll('main h1, main h2, main h3')].map((each) => Number(each.tagName[1]))";
        const EMPTY: &str = "[...document.querySelectorAll('main th')].filter((each) => !each.textContent.trim() && !each.querySelector('input')).length";
        let caller = panic::Location::caller();
        async move {
            let headings: Vec<u64> = serde_json::from_value(self.js(HEADINGS).await).unwrap();
            let is_nested = headings
                .windows(2)
                .all(|pair| pair[1] <= pair[0] + 1 && pair[1] > 1);
            assert!(
                headings.first() == Some(&1) && is_nested,
                "{caller}: {headings:?}"
            );
            assert_eq!(self.js(EMPTY).await, 0, "{caller}");
        }
    }

    /// Waits for a download and returns its content.
    pub(super) async fn download(&self, name: &str) -> Vec<u8> {
        let path = self.downloads.join(name);
        let deadline = Instant::now() + TIMEOUT;
        // An incomplete download has another name.
        while !path.exists() {
            let there: Vec<_> = (fs::read_dir(&self.downloads).unwrap())
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert!(
                Instant::now() < deadline,
                "expected {name}, found {there:?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        fs::read(path).unwrap()
    }

    /// Waits until this number of files from the server is downloaded. Returns their names and
    /// contents. Charts that the page itself draws and saves are not included.
    pub(super) async fn downloaded(&self, number: usize) -> Vec<(String, Vec<u8>)> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let files: Vec<_> = (fs::read_dir(&self.downloads).unwrap())
                .map(|entry| entry.unwrap().path())
                // Chromium gives incomplete downloads the extension `crdownload`.
                .filter(|path| path.extension().is_none_or(|kind| kind != "crdownload"))
                .map(|path| {
                    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                    (name, fs::read(path).unwrap_or_default())
                })
                .filter(|(name, content)| !name.contains("total-time") && !content.is_empty())
                .collect();
            if files.len() >= number {
                return files;
            }
            assert!(
                Instant::now() < deadline,
                "expected {number} downloads, found {}",
                files.len()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
