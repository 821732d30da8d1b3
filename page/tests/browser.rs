//! The page of `sluiced` in a real browser, in front of a server that says what a busy host says: what it shows, what it asks
//! for, how it is used without a mouse, and what it says of a daemon that is gone.

mod server;

use std::time::Duration;

use serde_json::{Value, json};
use server::Server;
use sluice_browser::{Browser, BrowserError, Scheme};

/// Longer than anything here takes, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A folder for pictures, if somebody wants to look at them.
const PICTURES: &str = "SLUICE_PICTURES";

fn browser() -> Option<Browser> {
    match Browser::start() {
        Ok(browser) => Some(browser),
        Err(BrowserError::Missing) => {
            sluice_skip::skip!(Thing, "no chromium");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Pages with an expression each that must hold, waited for.
fn holds(browser: &mut Browser, expression: &str) {
    let became = browser.wait(expression, PATIENCE).unwrap_or_else(|error| panic!("{expression}: {error}"));
    if !became {
        let text = browser.eval("document.body.innerText").unwrap_or_default();
        panic!("never so: {expression}\n{}\n{:?}", text.as_str().unwrap_or_default(), browser.complaints());
    }
}

fn text(browser: &mut Browser, of: &str) -> String {
    let value = browser.eval(&format!("document.querySelector({}).textContent", json!(of))).expect("evaluates");
    value.as_str().unwrap_or_default().to_owned()
}

fn picture(browser: &mut Browser, name: &str) {
    let png = browser.picture(true).expect("a picture");
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{name}: {} bytes", png.len());
    if let Some(dir) = std::env::var_os(PICTURES) {
        std::fs::write(std::path::Path::new(&dir).join(format!("{name}.png")), png).expect("written");
    }
}

#[test]
fn the_page_shows_a_busy_host_and_is_used_by_keyboard() {
    let Some(mut browser) = browser() else { return };
    let server = Server::start();
    browser.look(1280, 900, Scheme::Light, false).expect("a size");
    browser.open(&server.url("/")).expect("opens");
    holds(&mut browser, "document.getElementById('host').textContent === 'gpu-17'");
    let all = browser.eval("document.body.innerText").expect("evaluates");
    let all = all.as_str().unwrap_or_default().to_owned();
    // The numbers of cli/tests/data/snapshot.json, in the words of `sluice status`.
    for part in [
        "sluiced 0.3.0, cluster default, up 3 d 4 h",
        "switch-unreachable: leaf-2, for ",
        "silent for 4.1 s (68 slots).",
        "Costs: its links are scheduled from this host's own table: other hosts' plans are not seen there.",
        "Do: sluice switches leaf-2.",
        "25.0 Gbit/s, own link",
        "managed 72 %, other 4.0 %",
        "ring, rank 3/8, round 1 204, 62 % of 210 MB",
        "9.37 Gbit/s of 9.40 Gbit/s",
        "waits: predecessor 2→0",
        "released: 18 % slower with Sluice",
        "10.0.3.21:40118",
        "1.25 Gbit/s",
        "110 µs",
        "≤ 412 µs of 30.0 ms allowed",
        "29 170 451, 60.0 ms long, 10 planned ahead",
        "400 µs / 2.00 ms",
        "connection refused",
        "struct_ops",
    ] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
    assert_eq!(text(&mut browser, "#state"), "degraded");
    let strip = "[...document.querySelector('#links .slots').children].map(e => e.textContent).join(' ')";
    let numbers: Vec<String> = server::snapshot().links[0].load_ratios().map(|r| format!("{:.0}", r * 100.0)).collect();
    assert_eq!(browser.eval(strip).expect("evaluates"), numbers.join(" "));
    // Lanes: what was sent before anybody looked, and since.
    let lane = browser.eval("document.querySelector('#lanes path').getAttribute('d')").expect("evaluates");
    assert!(lane.as_str().is_some_and(|path| path.matches('V').count() > 40), "{lane}");
    assert!(all.contains("some job sent"), "{all}");
    keyboard(&mut browser);
    filters(&mut browser, &server);
    everything_has_a_name(&mut browser);
    assert_eq!(browser.complaints(), [] as [String; 0], "the console is clean");
    let allowed = ["/", "/api/v1/stream", "/api/v1/explain"];
    for asked in browser.asked().to_vec() {
        let path = asked.url.strip_prefix(&server.url("")).unwrap_or_else(|| panic!("another place: {}", asked.url));
        let ours = allowed.iter().any(|route| *route == path || (route.len() > 1 && path.starts_with(route)));
        assert!(ours && asked.method == "GET", "{asked:?}");
    }
}

/// The order of the focus, and a flow's reasons by `Enter`: the very text of `sluice explain`.
fn keyboard(browser: &mut Browser) {
    const EXPLAINED: &str = include_str!("../../cli/tests/data/expected/explain.txt");
    let mut order = Vec::new();
    for _ in 0..60 {
        browser.press("Tab").expect("a key");
        let focused = "(e => e.id || e.name || e.className || e.tagName)(document.activeElement)";
        let focused = browser.eval(focused).expect("evaluates").as_str().unwrap_or_default().to_owned();
        let seen = "(r => r.width > 0 && r.height > 0)(document.activeElement.getBoundingClientRect())";
        assert_eq!(browser.eval(seen).expect("evaluates"), true, "{focused} has the focus and is not seen");
        order.push(focused.clone());
        if focused == "id" {
            break;
        }
    }
    assert_eq!(order, ["skip", "hz", "name", "name", "name", "job", "scroll", "id"], "the order of the document");
    browser.press("Enter").expect("a key");
    holds(browser, "document.querySelector('#why pre').textContent.startsWith('flow 0x1a3')");
    assert_eq!(text(browser, "#why pre"), EXPLAINED);
    assert_eq!(browser.eval("document.activeElement.getAttribute('aria-expanded')").expect("evaluates"), "true");
    browser.press("Enter").expect("a key");
    holds(browser, "document.getElementById('why') === null");
    assert_eq!(browser.eval("document.activeElement.className").expect("evaluates"), "id", "the focus stays");
}

/// Four a second and one job's flows are asked of the daemon, and stand in the address; a pause asks for nothing.
fn filters(browser: &mut Browser, server: &Server) {
    browser.eval("document.querySelector('input[value=\"4\"]').click()").expect("evaluates");
    holds(browser, "location.search === '?hz=4'");
    server.wait_for("/api/v1/stream?hz=4");
    browser
        .eval("(s => { s.value = '4711'; s.dispatchEvent(new Event('change')); })(document.getElementById('job'))")
        .expect("evaluates");
    server.wait_for("/api/v1/stream?hz=4&job=4711");
    holds(browser, "[...document.querySelectorAll('#flows tr')].every(r => r.cells[1].textContent === '4711')");
    browser.eval("document.querySelector('input[value=\"0\"]').click()").expect("evaluates");
    holds(browser, "document.getElementById('age').textContent.startsWith('paused')");
    browser.eval("document.querySelector('input[value=\"1\"]').click()").expect("evaluates");
    holds(browser, "document.getElementById('age').textContent.startsWith('last update')");
}

/// Whatever can be pressed, or is drawn, tells a screen reader what it is.
fn everything_has_a_name(browser: &mut Browser) {
    browser.call("Accessibility.enable", json!({})).expect("a tree");
    let tree = browser.call("Accessibility.getFullAXTree", json!({})).expect("a tree");
    let nodes = tree["nodes"].as_array().expect("a list");
    let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
    let mut named = 0;
    for node in nodes.iter().filter(|node| node["ignored"] != true) {
        let role = role(node);
        if ["button", "radio", "combobox", "link", "image", "heading", "region", "columnheader"]
            .contains(&role.as_str())
        {
            assert!(node["name"]["value"].as_str().is_some_and(|name| !name.trim().is_empty()), "{node}");
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
    let has = |wanted: &str| nodes.iter().any(|node| role(node) == wanted);
    assert!(["main", "banner", "contentinfo", "status", "table"].iter().all(|wanted| has(wanted)));
}

#[test]
fn it_fits_every_width_in_light_and_dark_and_says_when_it_is_old() {
    let Some(mut browser) = browser() else { return };
    let mut server = Server::start();
    for (name, width, scheme, still) in [
        ("light", 1280, Scheme::Light, false),
        ("dark", 1280, Scheme::Dark, false),
        // A window of 1280 at 200 %.
        ("zoomed", 640, Scheme::Light, true),
        ("narrow", 360, Scheme::Dark, true),
    ] {
        browser.look(width, 900, scheme, still).expect("a size");
        browser.open(&server.url("/")).expect("opens");
        holds(&mut browser, "document.querySelectorAll('#flows tr').length > 1");
        let wide = browser.eval("document.documentElement.scrollWidth").expect("evaluates");
        assert!(wide.as_u64().is_some_and(|wide| wide <= u64::from(width)), "{name}: {wide} of {width}");
        let ground = browser.eval("getComputedStyle(document.body).backgroundColor").expect("evaluates");
        assert_eq!(ground, if scheme == Scheme::Dark { "rgb(20, 24, 29)" } else { "rgb(255, 255, 255)" });
        // Nothing that is to be read is cut off, and what can be pressed is large enough.
        let cut = "[...document.querySelectorAll('h1,h2,h3,p,dd,.slots li,button,label')].filter(e => e.offsetParent && !e.closest('.scroll') && !e.classList.contains('sr') && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline').map(e => e.outerHTML.slice(0, 120))";
        assert_eq!(browser.eval(cut).expect("evaluates"), json!([]), "{name}");
        let small = "[...document.querySelectorAll('button,select,label')].filter(e => e.offsetParent && e.getBoundingClientRect().height < 18).map(e => e.outerHTML.slice(0, 120))";
        assert_eq!(browser.eval(small).expect("evaluates"), json!([]), "{name}");
        picture(&mut browser, &format!("sluiced-{name}"));
        assert_eq!(browser.complaints(), [] as [String; 0], "{name}");
    }
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" })).expect("on paper");
    assert_eq!(browser.eval("document.querySelector('fieldset').offsetParent === null").expect("evaluates"), true);
    picture(&mut browser, "sluiced-print");
    browser.look(1280, 900, Scheme::Light, false).expect("a size");
    assert_eq!(browser.eval("document.body.className").expect("evaluates"), "");
    server.stop();
    holds(&mut browser, "document.body.classList.contains('stale')");
    holds(
        &mut browser,
        "/^Stale: last update [0-9.]+ s ago\\. Does sluiced still run\\?$/.test(document.getElementById('age').textContent)",
    );
    assert!(
        browser.eval("document.title").expect("evaluates").as_str().is_some_and(|title| title.starts_with("STALE: "))
    );
    assert_eq!(text(&mut browser, "#told"), "What is shown is old");
    assert_eq!(text(&mut browser, "#host"), "gpu-17", "the last state stays");
    picture(&mut browser, "sluiced-stale");
}
