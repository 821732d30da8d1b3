//! A real Prometheus scrapes real daemons and a real switch while two jobs share links; then it is asked everything that the
//! dashboards ask, and has to know something of all of it. Needs root, the built programs, and Prometheus (`cargo xtask setup`).

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, Running, also, daemons, dir, job, metrics, privileged, star};
use serde_json::Value;
use sluice_monitoring::dashboard::Kind;
use sluice_monitoring::exported::Exported;
use sluice_monitoring::{dashboards, promtool};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::NetNs;
use sluice_testbed::fabric::layout::management_address;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Placement, Policy, RunPlan};

/// What stands for Grafana's intervals: eight scrapes.
const INTERVAL: &str = "4s";
/// Where Prometheus listens in the management namespace.
const ADDRESS: &str = "127.0.0.1:9090";
/// So long everything is asked again that had no answer yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// The host whose mode the test changes.
const CHANGED: usize = 1;

/// A query of a panel, ready to be asked.
struct Question {
    place: String,
    expr: String,
    instant: bool,
}

fn questions() -> Vec<Question> {
    let mut all = Vec::new();
    for board in dashboards::all() {
        // Of each dashboard the process that it is about.
        let of = |host: usize| format!("{}:9605", management_address(host));
        let instance = |host| if board.name == "host" { of(host) } else { ".*".into() };
        let ask = |place: &str, expr: &str, instant| Question {
            place: format!("dashboard {}, {place}", board.name),
            expr: promtool::with_values(expr, INTERVAL, &instance(0), "a"),
            instant,
        };
        for panel in &board.panels {
            let instant = matches!(panel.kind, Kind::Stat | Kind::Table);
            all.extend(panel.queries.iter().map(|query| ask(panel.title, &query.expr, instant)));
        }
        all.extend(board.variables.iter().map(|variable| ask(variable.name, &variable.selector, true)));
        let changes = promtool::with_values(&board.annotation, INTERVAL, &instance(CHANGED), "a");
        all.push(Question { place: format!("dashboard {}, mode changes", board.name), expr: changes, instant: false });
    }
    all
}

/// A form's text.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// What Prometheus answers to a form.
fn asked(ns: &NetNs, route: &str, form: &str) -> Option<Value> {
    let request = format!(
        "POST {route} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    answered(ns, request)
}

fn got(ns: &NetNs, route: &str) -> Option<Value> {
    answered(ns, format!("GET {route} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
}

fn answered(ns: &NetNs, request: String) -> Option<Value> {
    let text = ns.run(move || {
        let mut stream = TcpStream::connect(ADDRESS).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    });
    serde_json::from_str(text.ok()??.split_once("\r\n\r\n")?.1).ok()
}

/// Is there a number in an answer that is one?
fn has_data(answer: &Value) -> bool {
    let number =
        |point: &Value| point[1].as_str().and_then(|text| text.parse::<f64>().ok()).is_some_and(f64::is_finite);
    let series = answer["data"]["result"].as_array();
    series.is_some_and(|all| {
        all.iter().any(|one| {
            number(&one["value"]) || one["values"].as_array().is_some_and(|points| points.iter().any(number))
        })
    })
}

/// The questions without an answer.
fn unanswered<'a>(ns: &NetNs, questions: &[&'a Question], since: Instant) -> Vec<(&'a Question, String)> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let start = now - since.elapsed().as_secs_f64().min(600.0);
    let ask = |question: &Question| {
        let query = format!("query={}", encoded(&question.expr));
        if question.instant {
            return asked(ns, "/api/v1/query", &query);
        }
        asked(ns, "/api/v1/query_range", &format!("{query}&start={start}&end={now}&step=1"))
    };
    let mut left = Vec::new();
    for question in questions {
        let answer = ask(question).unwrap_or_default();
        if !has_data(&answer) {
            left.push((*question, answer.to_string()));
        }
    }
    left
}

/// Starts Prometheus beside the switches' tables; it scrapes them and every host.
fn scrape(program: PathBuf, live: &Live, dir: &Path) -> Running {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring/sluice.rules.yml");
    let hosts: Vec<String> =
        (0..live.fabric.hosts.len()).map(|host| format!("\"{}:9605\"", management_address(host))).collect();
    let mut text = String::from("global:\n  scrape_interval: 500ms\n  evaluation_interval: 1s\n");
    writeln!(text, "rule_files: [\"{}\"]\nscrape_configs:", rules.display()).unwrap();
    for (name, targets) in [("sluiced", hosts.join(", ")), ("sluice-switch", "\"127.0.0.1:9606\"".into())] {
        writeln!(text, "- job_name: {name}\n  static_configs: [{{targets: [{targets}]}}]").unwrap();
    }
    let config = dir.join("prometheus.yml");
    std::fs::write(&config, text).unwrap();
    let log = std::fs::File::create(dir.join("prometheus.log")).unwrap();
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
    command.arg(format!("--web.listen-address={ADDRESS}")).stdout(Stdio::null()).stderr(log);
    Running(live.fabric.management.spawn(command, None).unwrap())
}

/// Has a host's daemon change its mode, as `sluice mode` does.
fn set_mode(live: &Live, host: usize, mode: &str) {
    let body = format!("{{\"mode\":\"{mode}\"}}");
    let mut stream = UnixStream::connect(live.daemons.hosts[host].run_dir.join("sluiced.sock")).unwrap();
    let request = format!(
        "POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn every_query_of_every_dashboard_returns_data() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (prometheus, promtool) = match (promtool::find("prometheus"), promtool::find("promtool")) {
        (Ok(prometheus), Ok(promtool)) => (prometheus, promtool),
        (Err(why), _) | (_, Err(why)) => return skip!(Thing, "{why}"),
    };
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let fabric = star(2, Rate::mbps(200));
    for (host, name) in fabric.hosts.iter().enumerate() {
        let listen = format!("[http]\nlisten = [\"127.0.0.1:9605\", \"{}:9605\"]\n", management_address(host));
        also(&dir.join("live"), std::slice::from_ref(name), &listen);
    }
    let mut jobs = vec![job("a", Arch::Ring, 2, 0, 2_000_000, 10_000), job("b", Arch::Ring, 2, 0, 2_000_000, 10_000)];
    jobs.iter_mut().for_each(|job| job.compute = vec![Nanos::from_millis(60)]);
    let plan = RunPlan { name: "monitoring".into(), fabric, jobs, ..RunPlan::default() };
    let place = |workers: [usize; 2]| Placement { workers: workers.to_vec(), servers: vec![] };
    let policy = "sluice".parse::<Policy>().unwrap();
    let mut live = Live::start(&bench, &plan, &place([0, 1]), &policy, 200).unwrap();
    live.start_beside(&bench, &plan, 1, &place([1, 0])).unwrap();
    let began = Instant::now();
    let _prometheus = scrape(prometheus, &live, &dir);
    live.run_for(Duration::from_secs(8)).unwrap();

    if live.daemons.get(0, "/metrics").unwrap().contains("sluice_enforcement_backend{backend=\"none\"} 1") {
        return skip!(Kernel, "nothing is enforced here");
    }
    // What changed a mode is marked.
    set_mode(&live, CHANGED, "observe");
    live.run_for(Duration::from_secs(2)).unwrap();

    let all = questions();
    let ns = &live.fabric.management;
    let nothing = asked(ns, "/api/v1/query", &format!("query={}", encoded("sluice_flows{state=\"none\"}"))).unwrap();
    assert!(nothing["status"] == "success" && !has_data(&nothing), "{nothing}");
    let mut left: Vec<&Question> = all.iter().collect();
    loop {
        let without = unanswered(ns, &left, began);
        if without.is_empty() {
            break;
        }
        let named: Vec<String> = without
            .iter()
            .map(|(question, answer)| format!("{}: {}\n  {answer}", question.place, question.expr))
            .collect();
        let log = || std::fs::read_to_string(dir.join("prometheus.log")).unwrap_or_default();
        let patient = began.elapsed() < PATIENCE;
        assert!(patient, "{} of {} queries are empty:\n{}\n{}", without.len(), all.len(), named.join("\n"), log());
        left = without.into_iter().map(|(question, _)| question).collect();
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("{} queries have data after {:.1} s", all.len(), began.elapsed().as_secs_f64());

    // Every rule was evaluated, and none of them in vain.
    let rules = got(ns, "/api/v1/rules").unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert_eq!(rules.len(), 24);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }

    // What real processes export while they work.
    let pages = [live.daemons.get(0, "/metrics").unwrap(), switch_page(ns)];
    let mut exported = Exported::default();
    for page in &pages {
        promtool::check_metrics(&promtool, page).unwrap_or_else(|said| panic!("{said}"));
        exported.page(page);
    }
    // There with `[tls]` only.
    for certificate in
        ["sluice_certificate_expiry_timestamp_seconds", "sluice_switchd_certificate_expiry_timestamp_seconds"]
    {
        exported.metric(certificate, &[]);
    }
    let ours = |name: &str| name.starts_with("sluice_") && !name.contains(':');
    let faults = sluice_monitoring::faults(&exported, ours);
    assert!(faults.is_empty(), "{faults:#?}");
}

fn switch_page(ns: &NetNs) -> String {
    let answer = ns.run(|| metrics("127.0.0.1:9606")).unwrap().unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
