//! How many jobs and flows have series of their own in the metrics: as many as the configuration says.

use super::*;
use crate::config::MetricFlows;
use crate::facts::Facts;

/// What the series of one page are of, a job by its label and a flow by its own.
#[derive(Debug, PartialEq)]
struct Shown {
    jobs: Vec<String>,
    flows: Vec<String>,
}

/// The value of a label in a line of metrics.
fn label(line: &str, name: &str) -> String {
    let after = line.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name}: {line}")).1;
    after.split('"').next().unwrap_or_default().to_owned()
}

fn shown(site: &Site) -> Shown {
    let mut facts = Facts::new(&site.core);
    facts.number(&site.core);
    let page = crate::scrape(&crate::snapshot::take(&site.core, &facts)).expect("renders");
    let lines = |family: &str| {
        let begin = format!("{family}{{");
        let mut lines: Vec<&str> = page.lines().filter(|line| line.starts_with(&begin)).collect();
        lines.sort_unstable();
        lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let jobs = lines("sluice_job_flows").iter().map(|line| label(line, "job_id")).collect();
    let flow = |line: &String| format!("{} {}", label(line, "job_id"), label(line, "flow"));
    let mut flows: Vec<String> = lines("sluice_flow_ordered_rate_bytes_per_second").iter().map(flow).collect();
    flows.sort();
    Shown { jobs, flows }
}

/// Two jobs on one host, which sends one flow of the first and three of the second.
fn site(max_jobs: u64, max_flows: u64) -> Site {
    let mut config = config(0, true);
    config.metrics.flows = MetricFlows::Index;
    (config.metrics.max_jobs, config.metrics.max_flows) = (max_jobs, max_flows);
    let fabric = fabric(0, &config);
    let mut site = Site::on(config, fabric, (0, 1), "a");
    let ports = [4001, 4002, 4003];
    let peer = |local: u16| Peer {
        rank: Some(1),
        kind: PeerKind::Connected,
        local: at(0, local),
        remote: at(1, 5000),
        cookie: 0,
        tx_bytes: 0,
    };
    let view = PageView {
        job_id: "b".into(),
        rank: Some(0),
        nranks: 2,
        pattern: PagePattern::Unknown,
        peers: ports.map(peer).to_vec(),
        state: State::Compute,
        ..PageView::default()
    };
    site.core.monitor.add_for_test(8, view);
    for local in ports {
        site.kernel.open(at(0, local), at(1, 5000));
    }
    (0..600).step_by(20).for_each(|ms| site.turn(ms));
    site
}

#[test]
fn as_many_jobs_and_flows_have_series_of_their_own_as_the_keys_say() {
    let both = ["a", "b"].map(str::to_owned).to_vec();
    let numbered = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = Shown { jobs: both.clone(), flows: numbered(&["a 0", "b 0", "b 1", "b 2"]) };
    assert_eq!(shown(&site(32, 64)), all);
    assert_eq!(shown(&site(32, 3)), Shown { jobs: both.clone(), flows: numbered(&["a 0", "b 0", "b 1", "b _other"]) });
    assert_eq!(shown(&site(32, 1)), Shown { jobs: both, flows: numbered(&["a 0", "b _other"]) });
    // Flows of jobs without series of their own have none either.
    let one = shown(&site(1, 64));
    assert_eq!(one.jobs.len(), 2, "one and the rest: {one:?}");
    assert!(one.jobs.contains(&"_other".to_owned()) && one.flows.contains(&"_other _other".to_owned()), "{one:?}");
    assert_eq!(shown(&site(0, 64)), Shown { jobs: numbered(&["_other"]), flows: numbered(&["_other _other"]) });
    // A reload changes them.
    let mut site = site(32, 64);
    let mut loaded = site.core.loaded.clone();
    (loaded.config.metrics.max_jobs, loaded.config.metrics.max_flows) = (32, 3);
    site.core.reload(loaded, site.core.monitor.fabric.clone());
    assert_eq!(shown(&site).flows, numbered(&["a 0", "b 0", "b 1", "b _other"]));
}
