//! Debian's Chromium without a window, driven by its own protocol over a pipe. Clicks and keys are real ones.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{Case, ManifestFolder, SOON, Verdict, patient, tools, wait_until};

/// It reads from 3 and writes to 4. The shell puts them there: only the kernel crate may do what comes before an `exec`.
const START: &str = "exec chromium --headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage \
                     --no-first-run --hide-scrollbars --disable-background-networking --user-data-dir=\"$1\" about:blank \
                     3<&0 4>&1 </dev/null >\"$1/log\" 2>&1";

/// A case that is skipped where there is no browser.
pub(crate) fn with_browser(name: &'static str, run: fn()) -> Case<'static> {
    Case::new(name, move || match tools::is_installed("chromium") {
        true => {
            run();
            Verdict::Passed
        }
        false => Verdict::Skipped("chromium is not there; scripts/setup installs it on Debian".to_owned()),
    })
}

/// A browser with one tab.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Value,
    number: u64,
    /// What it complained about: scripts that failed, what the policy of the page forbids, dialogs.
    pub(crate) complaints: Vec<String>,
    /// Its profile. Dropped last.
    folder: ManifestFolder,
}

impl Browser {
    pub(crate) fn start(namespace: &Namespace, (width, height): (u32, u32)) -> Browser {
        let folder = ManifestFolder::create();
        let mut command = Command::new("sh");
        command.args(["-c", START, "sh"]).arg(folder.path()).env("HOME", folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        namespace.enter(&mut command).unwrap();
        let mut process = command.spawn().unwrap();
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let texts = BufReader::new(answers).split(0);
            let read = texts.map_while(Result::ok).map_while(|text| serde_json::from_slice(&text).ok());
            read.into_iter().try_for_each(|message: Value| sender.send(message))
        });
        let (session, complaints) = (Value::Null, Vec::new());
        let mut browser = Browser { process, commands, messages, session, number: 0, complaints, folder };
        browser.open_tab();
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        self.session = self.call("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Ask the browser, and wait for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(patient(SOON));
            let message = message.unwrap_or_else(|why| panic!("{method}: {why}: {}", self.log()));
            if message["id"] == json!(self.number) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let is_bad = match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Page.javascriptDialogOpening") => true,
            Some("Log.entryAdded") => message["params"]["entry"]["level"] == "error",
            _ => false,
        };
        if is_bad {
            self.complaints.push(message["params"].to_string());
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn visit(&mut self, url: &str) {
        let loaded = self.call("Page.navigate", json!({ "url": url }));
        assert!(loaded["errorText"].is_null(), "{url}: {loaded}");
        self.await_true(&format!("location.href === {} && document.readyState === 'complete'", json!(url)));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub(crate) fn await_true(&mut self, expression: &str) {
        let is_true = wait_until(SOON, || self.value(expression) == true);
        let shown = if is_true { Value::Null } else { self.value("location.href + document.body.innerText") };
        assert!(is_true, "{expression} never came true: {shown}");
    }

    /// Wait until an element is there and holds these words.
    pub(crate) fn await_text(&mut self, element: &str, words: &str) {
        let (element, words) = (json!(element), json!(words));
        self.await_true(&format!("(document.querySelector({element})?.innerText ?? '').includes({words})"));
    }

    /// With the mouse, in the middle of the first element that fits.
    pub(crate) fn click(&mut self, element: &str) {
        let found = json!(element);
        self.await_true(&format!("document.querySelector({found}) !== null"));
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({found}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Click into a field and write.
    pub(crate) fn write(&mut self, element: &str, text: &str) {
        self.click(element);
        self.value(&format!("document.querySelector({}).select()", json!(element)));
        self.call("Input.insertText", json!({ "text": text }));
    }

    pub(crate) fn press_enter(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// What is drawn, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        base64(answer["data"].as_str().unwrap())
    }

    pub(crate) fn assert_content(&self) {
        assert!(self.complaints.is_empty(), "the browser complains: {:#?}", self.complaints);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It takes its helpers along when its pipe closes, too.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if !wait_until(std::time::Duration::from_secs(5), || matches!(self.process.try_wait(), Ok(Some(_)))) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|c| letters.iter().position(|letter| *letter == c));
    let values: Vec<u32> = values.map(|value| value as u32).collect();
    let bytes = values.chunks(4).flat_map(|four| {
        let all = four.iter().enumerate().fold(0, |all, (place, value)| all | value << (18 - 6 * place));
        all.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

/// Where a picture goes, if pictures are wanted.
pub(crate) fn picture_folder() -> Option<PathBuf> {
    std::env::var_os("UPDATE_PICTURES")?;
    Some(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")))
}
