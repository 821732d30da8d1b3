//! How many series there are, of one host and of a cluster, and that dashboards and rules name none but them.

use sluice_monitoring::exported::Exported;
use sluice_monitoring::promtool;
use sluice_monitoring::reference::{self, Row};
use sluice_skip::skip;
use sluice_wire::snapshot::ConditionCode;

use super::*;

/// Series of a host whatever it does, of a job, of a link, of a switch or peer, and of a numbered flow: docs/operating.md reckons
/// with them. Each condition has one.
const FIXED: usize = 211 + ConditionCode::ALL.len();
const OF_A_JOB: usize = 10;
const OF_A_LINK: usize = 8;
const OF_A_SWITCH: usize = 9;
const OF_A_FLOW: usize = 2;

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

fn host(jobs: usize, links: usize, switches: usize, flows_of_each: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.daemon.metrics_job_ids = true;
    snapshot.daemon.metrics_max_jobs = 32;
    snapshot.daemon.metrics_flows = flows_of_each > 0;
    snapshot.daemon.metrics_max_flows = 64;
    for job in 0..jobs {
        let id = Label::new(&format!("job-{job}"));
        snapshot.jobs.push(Job { id: id.clone(), ..Job::default() });
        let flows = 0..u32::try_from(flows_of_each).expect("few");
        snapshot.flows.extend(flows.map(|number| Flow { job: id.clone(), number: Some(number), ..Flow::default() }));
    }
    snapshot.links.extend((0..links).map(|n| Link { name: format!("eth{n}"), ..Link::default() }));
    snapshot
        .switches
        .extend((0..switches).map(|n| SwitchStatus { name: format!("leaf{n}"), ..SwitchStatus::default() }));
    snapshot.settle()
}

#[test]
fn the_number_of_series_is_a_sum_of_few_terms_and_bounded() {
    let count = |snapshot: &Snapshot| series(&render(snapshot).expect("renders"));
    let sum = |jobs: usize, links: usize, switches: usize, flows: usize| {
        FIXED + jobs * OF_A_JOB + links * OF_A_LINK + switches * OF_A_SWITCH + flows * OF_A_FLOW
    };
    assert_eq!(count(&host(0, 0, 0, 0)), sum(0, 0, 0, 0));
    assert_eq!(count(&host(3, 2, 3, 0)), sum(3, 2, 3, 0));
    assert_eq!(count(&host(3, 2, 3, 4)), sum(3, 2, 3, 12));
    // Everything full: 32 jobs and the rest, 64 flows and the rest of each job that has one.
    let worst = count(&host(300, 40, 40, 3));
    assert!(worst <= sum(33, MAX_LINKS, MAX_SWITCHES, 64 + 33), "{worst}");
    assert!(sum(33, MAX_LINKS, MAX_SWITCHES, 0) <= 1024);
}

#[test]
fn a_thousand_hosts_with_three_hundred_jobs_have_as_many_series_as_the_documentation_says() {
    // Every job on ten hosts, every host with three jobs; two links and three switches each. Hosts with as many of each have as many
    // series, so that a page in fifty is enough to count.
    let mut ids = BTreeSet::new();
    let mut total = 0;
    for first in (0..1000).step_by(50) {
        let mut snapshot = host(0, 2, 3, 0);
        for job in 0..3 {
            let id = format!("train-{}", 100 * job + first / 10);
            snapshot.jobs.push(Job { id: Label::new(&id), ..Job::default() });
        }
        let page = render(&snapshot.settle()).expect("renders");
        let samples = parse(&page);
        total += 50 * samples.len();
        ids.extend(samples.into_keys().flat_map(|(_, labels)| labels).filter(|(name, _)| name == "job_id"));
    }
    assert_eq!(total, 1000 * (FIXED + 3 * OF_A_JOB + 2 * OF_A_LINK + 3 * OF_A_SWITCH));
    assert!((310_000..=330_000).contains(&total), "the documentation says 320 000, these are {total}");
    assert!(ids.len() <= 300);
    // The worst that 300 jobs can do: each on every host.
    let worst = series(&render(&host(300, 2, 3, 0)).expect("renders"));
    assert_eq!(worst, FIXED + 33 * OF_A_JOB + 2 * OF_A_LINK + 3 * OF_A_SWITCH);
    assert!(
        (610_000..=630_000).contains(&(1000 * worst)),
        "the documentation says 620 000, these are {}",
        1000 * worst
    );
}

#[test]
fn flows_beyond_the_limit_are_one_of_their_job() {
    let mut snapshot = host(3, 0, 0, 40);
    snapshot.flows.iter_mut().for_each(|flow| (flow.ordered_bps, flow.delivered_bps) = (Some(800), Some(400)));
    let samples = parse(&render(&snapshot).expect("renders"));
    let ordered = |job: &str, flow: &str| {
        let labels = vec![("flow".to_owned(), flow.to_owned()), ("job_id".to_owned(), job.to_owned())];
        let value = |(name, with): &(String, Vec<(String, String)>)| {
            let mut with = with.clone();
            with.sort();
            name == "sluice_flow_ordered_rate_bytes_per_second" && with == labels
        };
        samples.iter().find(|(key, _)| value(key)).map(|(_, value)| *value)
    };
    // 64 of 120: the numbers 0 to 20 of each job, and 21 of the first.
    assert_eq!((ordered("job-0", "21"), ordered("job-1", "20")), (Some(100.0), Some(100.0)));
    assert_eq!((ordered("job-0", "22"), ordered("job-2", "21")), (None, None));
    assert_eq!(ordered("job-0", "_other"), Some(18.0 * 100.0));
    assert_eq!(ordered("job-2", "_other"), Some(19.0 * 100.0));
    // By default there are none, and none where jobs have no label.
    for (flows, jobs) in [(false, true), (true, false)] {
        (snapshot.daemon.metrics_flows, snapshot.daemon.metrics_job_ids) = (flows, jobs);
        assert!(!render(&snapshot).expect("renders").contains("{job_id=\"job-0\",flow="));
    }
}

#[test]
fn hostile_jobs_with_numbered_flows_stay_within_the_bounds() {
    let mut snapshot = full(10_000, 65_536);
    snapshot.daemon.metrics_flows = true;
    snapshot.daemon.metrics_max_flows = 64;
    let jobs: Vec<Label> = snapshot.jobs.iter().map(|job| job.id.clone()).collect();
    for (at, flow) in snapshot.flows.iter_mut().enumerate() {
        (flow.job, flow.number) = (jobs[at % jobs.len()].clone(), u32::try_from(at / jobs.len()).ok());
    }
    let page = render(&snapshot).expect("renders");
    let samples = parse(&page);
    let flows = samples.keys().filter(|(name, _)| name == "sluice_flow_ordered_rate_bytes_per_second").count();
    assert!((64..=64 + 33).contains(&flows), "{flows}");
    assert!(samples.len() <= 1024 + OF_A_FLOW * (64 + 33), "{} series", samples.len());
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

/// All that a daemon ever exports: what a full page shows, and the labels of what it does not.
fn exported() -> Exported {
    let mut exported = Exported::default();
    exported.page(&render(&full(3, 3)).expect("renders"));
    for family in all() {
        match family.kind {
            Kind::Histogram => exported.histogram(family.name, family.labels),
            Kind::Gauge | Kind::Counter => exported.metric(family.name, family.labels),
        }
    }
    exported
}

#[test]
fn dashboards_and_rules_name_only_what_a_daemon_exports() {
    let mine = |name: &str| {
        (name.starts_with("sluice_") && !name.starts_with("sluice_switchd_")) || name.starts_with("process_")
    };
    let faults = sluice_monitoring::faults(&exported(), mine);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn promtool_is_content_with_a_full_page() {
    match promtool::find("promtool") {
        Ok(program) => {
            let page = render(&full(40, 3)).expect("renders");
            promtool::check_metrics(&program, &page).unwrap_or_else(|said| panic!("{said}"));
        }
        Err(why) => skip!(Thing, "{why}"),
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let rows = all().map(|family| Row {
        name: family.name.to_owned(),
        kind: match family.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        },
        labels: family.labels.iter().map(|label| (*label).to_owned()).collect(),
        help: family.help.to_owned(),
    });
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = std::fs::read_to_string(&file).expect("docs/metrics.md");
    let made =
        reference::with_table(&page, "sluiced", &reference::table(&rows.collect::<Vec<_>>())).expect("it has marks");
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&file, &made).expect("written");
    } else {
        assert!(page == made, "docs/metrics.md is not what is exported: SLUICE_UPDATE_EXPECTED=1 writes it anew");
    }
}
