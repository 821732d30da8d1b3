//! A controller that shares no code with Sluice is served as ours is: `finsy`, from PyPI.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use sluice_p4runtime::mock::Settings;
use sluice_schedule::Slot;
use sluice_skip::skip;

use crate::support::{Bench, announcement, within};

/// Python that knows finsy; `None`: there is none.
fn python() -> Option<Command> {
    let knows = |program: &str| {
        let mut probe = Command::new("python3");
        probe.args(["-c", program]).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    if !knows("pass") {
        skip!(Thing, "no python3 here");
        return None;
    }
    if !knows("import finsy") {
        skip!(Thing, "no finsy here; pip install finsy brings it");
        return None;
    }
    Some(Command::new("python3"))
}

#[tokio::test]
async fn an_independent_controller_is_served() {
    let Some(mut python) = python() else { return };
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let _session = bench.primary(1).await;
        let address = bench.uri().replace("http://", "");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/session/controller.py");
        python.arg("-B").arg(script).args([address.as_str(), "1000"]);
        // It ends by itself, sooner than the test does.
        let ran = tokio::task::spawn_blocking(move || python.output()).await.unwrap();
        let Output { status, stdout, stderr } = ran.unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let text = String::from_utf8_lossy(&stdout);
        assert!(text.contains("links") && text.contains("lpm"), "{text}");
        assert_eq!(bench.mock.guard(), Some(Slot(1000)));
        let (left, after) = bench.pass(&announcement(Slot(1000), 100));
        assert_eq!((left, after.hops, after.counted), (Ok(1), 1, 1));
        assert_eq!((after.path_sig, after.lanes[0].headroom), (0x00c0_ffee, 400));
    })
    .await;
}
