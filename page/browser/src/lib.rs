//! A headless Chromium for tests of pages: it opens one, sets its size and colours, presses keys, asks its script, and says
//! what it complained of and asked for. Only tests depend on it.
//!
//! It is spoken to by its DevTools protocol over two pipes, so that it opens no port. The process ends with the value that
//! started it, or when the pipes close.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An answer comes within this time, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// The names that the program has.
const PROGRAMS: [&str; 2] = ["chromium", "chromium-headless-shell"];

/// Why a browser does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// There is no such program.
    #[error("no chromium")]
    Missing,
    /// The process or its pipes failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It did not answer in time.
    #[error("chromium does not answer {0}")]
    Silent(String),
    /// It answered that it cannot.
    #[error("chromium refuses {method}: {why}")]
    Refused {
        /// What it was asked.
        method: String,
        /// What it said.
        why: String,
    },
}

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A request of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Where to.
    pub url: String,
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    asked: Vec<Asked>,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one, with an empty page.
    ///
    /// # Errors
    /// [`BrowserError::Missing`] where Chromium is not installed; others if it does not start.
    pub fn start() -> Result<Browser, BrowserError> {
        let program = PROGRAMS.iter().find_map(|name| found(name)).ok_or(BrowserError::Missing)?;
        let profile = tempfile::tempdir()?;
        // It reads from descriptor 3 and writes to 4; a shell puts our pipes there.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"]);
        command.args(["--disable-sync", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, out) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        let (send, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                if serde_json::from_slice(&message).is_ok_and(|value| send.send(value).is_err()) {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            next: 0,
            asked: Vec::new(),
            complaints: Vec::new(),
            _profile: profile,
        };
        let made = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Sets the size of the page in CSS pixels, its colours, and whether it may move.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn look(&mut self, width: u32, height: u32, scheme: Scheme, reduced_motion: bool) -> Result<(), BrowserError> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if scheme == Scheme::Dark { "dark" } else { "light" };
        let motion = if reduced_motion { "reduce" } else { "no-preference" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": "", "features": features }))?;
        Ok(())
    }

    /// Opens an address, and forgets what was asked for and complained of before.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn open(&mut self, url: &str) -> Result<(), BrowserError> {
        (self.asked, self.complaints) = (Vec::new(), Vec::new());
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        match answer["errorText"].as_str() {
            None | Some("") => Ok(()),
            Some(why) => Err(BrowserError::Refused { method: "Page.navigate".into(), why: why.into() }),
        }
    }

    /// The value of an expression of the page's script; promises are waited for.
    ///
    /// # Errors
    /// It throws; or as [`Browser::call`].
    pub fn eval(&mut self, expression: &str) -> Result<Value, BrowserError> {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", asked)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(BrowserError::Refused { method: expression.into(), why: thrown.to_string() }),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true; false: it did not become so in this time. One that throws is not true: of a page that
    /// is being opened nothing is there yet.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn wait(&mut self, expression: &str, patience: Duration) -> Result<bool, BrowserError> {
        let began = Instant::now();
        loop {
            match self.eval(expression) {
                Ok(Value::Bool(true)) => return Ok(true),
                Ok(_) | Err(BrowserError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
            if began.elapsed() > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses a key, such as `Tab` or `Enter`.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn press(&mut self, key: &str) -> Result<(), BrowserError> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "ArrowDown" => (40, ""),
            "ArrowRight" => (39, ""),
            " " => (32, " "),
            _ => (0, key),
        };
        let event = |kind: &str| {
            let text = if kind == "keyDown" { text } else { "" };
            json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text })
        };
        self.call("Input.dispatchKeyEvent", event("keyDown"))?;
        self.call("Input.dispatchKeyEvent", event("keyUp"))?;
        Ok(())
    }

    /// A picture of the whole page, or of what is seen of it, as PNG.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn picture(&mut self, whole: bool) -> Result<Vec<u8>, BrowserError> {
        let asked = json!({ "format": "png", "captureBeyondViewport": whole });
        let mut asked = asked;
        if whole {
            let metrics = self.call("Page.getLayoutMetrics", json!({}))?;
            let size = &metrics["cssContentSize"];
            asked["clip"] = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        }
        let answer = self.call("Page.captureScreenshot", asked)?;
        let data = answer["data"].as_str().unwrap_or_default();
        STANDARD.decode(data).map_err(|error| BrowserError::Io(io::Error::other(error)))
    }

    /// What the page asked for since it was opened, itself included.
    pub fn asked(&mut self) -> &[Asked] {
        self.gather();
        &self.asked
    }

    /// Errors and warnings since it was opened: thrown, logged, or of the browser.
    pub fn complaints(&mut self) -> &[String] {
        self.gather();
        &self.complaints
    }

    /// One call of the protocol, and its result.
    ///
    /// # Errors
    /// It is refused or not answered, or the process is gone.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() && !method.starts_with("Target.") {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes)?;
        self.to.flush()?;
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let mut said = match self.from.recv_timeout(left) {
                Ok(said) => said,
                Err(RecvTimeoutError::Timeout) => return Err(BrowserError::Silent(method.into())),
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            };
            if said["id"].as_u64() != Some(id) {
                self.note(&said);
                continue;
            }
            return match said.get("error") {
                Some(why) => Err(BrowserError::Refused { method: method.into(), why: why.to_string() }),
                None => Ok(said["result"].take()),
            };
        }
    }

    fn gather(&mut self) {
        let said: VecDeque<Value> = self.from.try_iter().collect();
        said.iter().for_each(|said| self.note(said));
    }

    fn note(&mut self, said: &Value) {
        let (method, params) = (said["method"].as_str().unwrap_or_default(), &said["params"]);
        match method {
            "Network.requestWillBeSent" => {
                let text = |key: &str| params["request"][key].as_str().unwrap_or_default().to_owned();
                self.asked.push(Asked { method: text("method"), url: text("url") });
            }
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" => self.complaints.push(params.to_string()),
            "Log.entryAdded" => self.complaints.push(params["entry"].to_string()),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
