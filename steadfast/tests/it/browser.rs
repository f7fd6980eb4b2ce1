//! Drives Chromium over the pipe of its DevTools protocol, without a port or another program. The
//! pipe ends with the process of the test, and the browser ends with the pipe.

mod pipe;

use std::{
    cell::RefCell,
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use self::pipe::Pipe;
use crate::harness::{spawn, until};

/// Headless, without persistence, and limited to this machine.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A browser with its own profile.
pub(crate) struct Browser {
    child: Child,
    pipe: RefCell<Pipe>,
    /// Removed at the end.
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser, if there is one: `./test` names it, or says that there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("STEADFAST_TEST_BROWSER") else {
            eprintln!("skipped: STEADFAST_TEST_BROWSER names no browser; `tests/browser` gets one");
            return None;
        };
        let profile = tempfile::tempdir().expect("a temporary folder");
        let errors = profile.path().join("errors");
        let mut command = Command::new("sh");
        // Chromium expects its pipe as file descriptors 3 and 4, which a shell can set up.
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"]).arg(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display()));
        command.env("HOME", profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&errors).expect("a file"));
        let mut child = spawn(&mut command);
        let pipe = RefCell::new(Pipe::new(&mut child));
        let browser = Self { child, pipe, _profile: profile };
        if let Err(error) = browser.call(None, "Browser.getVersion", json!({})) {
            panic!("no browser: {error}\n{}", fs::read_to_string(errors).unwrap_or_default());
        }
        Some(browser)
    }

    /// Opens a window with its own cookies and storage.
    pub(crate) fn open(&self, url: &str) -> Window<'_> {
        let call = |method, params| self.call(None, method, params).expect(method);
        let context = call("Target.createBrowserContext", json!({}));
        let blank = json!({
            "url": "about:blank", "browserContextId": context["browserContextId"],
            "width": 1000, "height": 800,
        });
        let target = call("Target.createTarget", blank)["targetId"].clone();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = call("Target.attachToTarget", attach)["sessionId"].clone();
        let session = session.as_str().expect("a session").to_owned();
        let window = Window { browser: self, target, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            window.call(domain, json!({}));
        }
        window.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        window.go(url);
        window
    }

    /// Asserts that no window has logged errors or warnings, such as violations of its content
    /// security policy. Messages with one of these words are allowed.
    #[track_caller]
    pub(crate) fn assert_quiet_but(&self, allowed: &[&str]) {
        let complaints = self.pipe.borrow_mut().complaints();
        let is_allowed = |it: &String| allowed.iter().any(|word| it.contains(word));
        let complaints: Vec<String> = complaints.into_iter().filter(|it| !is_allowed(it)).collect();
        assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    }

    /// The same, without exceptions.
    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        self.assert_quiet_but(&[]);
    }

    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let mut pipe = self.pipe.try_borrow_mut().map_err(|_| "it is in use".to_owned())?;
        pipe.call(session, method, &params)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if self.call(None, "Browser.close", json!({})).is_ok() {
            self.pipe.get_mut().wait_for_end();
        }
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A window. If its test fails, it saves a screenshot.
pub(crate) struct Window<'a> {
    browser: &'a Browser,
    target: Value,
    session: String,
}

impl Window<'_> {
    /// Opens a URL and waits until it is loaded.
    #[track_caller]
    pub(crate) fn go(&self, url: &str) {
        let error = self.call("Page.navigate", json!({ "url": url }))["errorText"].clone();
        assert!(error.is_null(), "{url}: {error}");
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Evaluates an expression; waits for a promise.
    #[track_caller]
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        self.try_evaluate(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&self, expression: &str) {
        // During navigation nothing can be evaluated.
        until(expression, || self.try_evaluate(expression) == Ok(Value::Bool(true)));
    }

    /// Waits until the page is loaded and has the element: its address is known before.
    #[track_caller]
    fn wait_for_element(&self, selector: &str) {
        let is_there = format!("document.querySelector({selector:?}) !== null");
        self.wait_for(&format!("document.readyState === 'complete' && {is_there}"));
    }

    /// Types into a field and replaces its text.
    #[track_caller]
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.wait_for_element(selector);
        self.evaluate(&format!("document.querySelector({selector:?}).select()"));
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses Enter in the focused element.
    #[track_caller]
    pub(crate) fn press_enter(&self) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({
                "type": kind, "key": "Enter", "code": "Enter", "text": "\r",
                "windowsVirtualKeyCode": 13,
            });
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Clicks into the middle of the element.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.wait_for_element(selector);
        let middle = self.evaluate(&format!(
            "(() => {{ const it = document.querySelector({selector:?}); it.scrollIntoView(); \
             const box = it.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2, box.width]; }})()"
        ));
        assert_ne!(middle[2], 0, "{selector} cannot be seen");
        for kind in ["mousePressed", "mouseReleased"] {
            let mouse = json!({
                "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", mouse);
        }
    }

    /// Ignores the policies of pages from now on: only the server protects them.
    pub(crate) fn bypass_policies(&self) {
        self.call("Page.setBypassCSP", json!({ "enabled": true }));
    }

    /// Resizes the window.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred colour scheme.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Closes it.
    pub(crate) fn close(self) {
        let target = json!({ "targetId": self.target });
        self.browser.call(None, "Target.closeTarget", target).expect("it can be closed");
    }

    /// Saves a screenshot.
    pub(crate) fn screenshot(&self, file: &Path) -> Result<(), String> {
        let picture = self.try_call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let picture = picture["data"].as_str().ok_or("no picture")?;
        fs::write(file, pipe::decoded(picture)).map_err(|error| error.to_string())
    }

    fn try_evaluate(&self, expression: &str) -> Result<Value, String> {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
            "userGesture": true,
        });
        let answer = self.try_call("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(pipe::thrown(thrown)),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    #[track_caller]
    fn call(&self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&self, method: &str, params: Value) -> Result<Value, String> {
        self.browser.call(Some(&self.session), method, params)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
            let target = self.target.as_str().unwrap_or_default();
            let file = format!("{test}-{target}.png");
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
            match self.screenshot(&file) {
                Ok(()) => eprintln!("a picture of the window: {}", file.display()),
                Err(error) => eprintln!("no picture of the window: {error}"),
            }
        }
    }
}
