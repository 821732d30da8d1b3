//! Jobs that follow a plan: their flows are the plan's, and a plan that is no good changes nothing.

use std::path::Path;

use super::*;

/// Rank 0 of three that follow the plan of [`plans::tests`]: to each other rank it sends on one connection and receives
/// on another.
fn planned(file: &Path) -> PageView {
    PageView {
        job_id: "gather".into(),
        rank: Some(0),
        nranks: 3,
        nnodes: 3,
        peers: vec![
            peer(1, PeerKind::Connected, 4000, 1, 5000),
            peer(2, PeerKind::Connected, 4001, 2, 5000),
            peer(1, PeerKind::Accepted, 6000, 1, 4100),
            peer(2, PeerKind::Accepted, 6000, 2, 4100),
        ],
        producer: file.display().to_string(),
        state: State::Compute,
        ..PageView::default()
    }
}

/// Starts the process, with this file named as its plan, and polls until the answer has come.
fn follow(bench: &mut Bench, file: &Path) -> Vec<Event> {
    bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.kernel.open(at(0, 4001), at(2, 5000));
    let mut process = Process::of_view(planned(file), JobSource::Env, Some(0));
    let own = nix::unistd::geteuid().as_raw();
    process.uid = Some(own);
    process.plan = Some(environ::PlanName { file: file.into(), ranks: None, collective: None });
    let mut events = Vec::new();
    bench.monitor.appeared(ProcessKey::Pid(9), process, &mut events);
    // The fake kernel's sockets belong to uid 0.
    bench.monitor.processes.get_mut(&ProcessKey::Pid(9)).expect("known").uid = Some(0);
    let began = std::time::Instant::now();
    while matches!(bench.monitor.jobs[&job_of(Some(0), "gather")].following, Following::Loading) {
        assert!(began.elapsed().as_secs() < 60, "no answer");
        std::thread::sleep(std::time::Duration::from_millis(1));
        events.extend(bench.poll(5));
    }
    events.extend(bench.poll(5));
    events
}

#[test]
fn a_job_with_a_plan_has_the_plans_flows() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("plan.json");
    std::fs::write(&file, plans::tests::plan()).expect("written");
    let mut bench = Bench::new();
    let events = follow(&mut bench, &file);
    let job = job_of(Some(0), "gather");
    assert!(events.contains(&Event::JobSeen(JobSpec { job, pattern: Pattern::Plan })), "{events:?}");
    assert_eq!(bench.monitor.jobs[&job].following.plan().expect("followed").name, "plan.json");
    let last = |to: &str| {
        let specs = opened(&events);
        (*specs.iter().rev().find(|spec| spec.to == HostId::of(to)).expect("told")).clone()
    };
    let (first, second) = (last("h1"), last("h2"));
    // To rank 1 goes rank 0's own part and that of rank 2; to rank 2 the own part only.
    assert_eq!((first.share.parts(), second.share.parts()), (1 << 20, 1 << 19));
    let theirs = tuple::Tuple::of(at(2, 4100), at(0, 6000)).outgoing(HostId::of("h2"));
    assert_eq!(first.preds.iter().map(|pred| pred.flow).collect::<Vec<_>>(), [theirs]);
    assert_eq!((second.preds.len(), second.role), (0, Role::Plain));
    let process = bench.monitor.processes.get_mut(&ProcessKey::Pid(9)).expect("known");
    let mut view = process.view.clone().expect("has a page");
    view.iteration.count = 1;
    (view.enq_bytes, view.enq_wire_bytes, view.state) = (9_000_000, 9_000_000, State::OnWire);
    process.update(view);
    let events = bench.poll(10);
    let mut bytes = began(&events).expect("a round");
    bytes.sort_unstable();
    assert_eq!(bytes, [Bytes(3_000_000), Bytes(6_000_000)], "split by the plan, in its first round");
    let lead = opened(&events).iter().find(|spec| !spec.preds.is_empty()).map(|spec| spec.preds[0].lead);
    // A tree's part of the data is kept in whole parts, and rounded down.
    let lead = lead.expect("a predecessor").0;
    assert!(lead.abs_diff(3_000_000) <= 1, "half of what goes to rank 1 waits for nobody: {lead}");
}

#[test]
fn a_flow_that_a_plan_read_later_knows_nothing_of_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("plan.json");
    // Trees along one ring: rank 0 sends to rank 1 only, and receives from rank 2 only.
    let edge = |from: &str, to: &str| format!(r#"{{"src":"{from}","dst":"{to}","path":["{from}","s","{to}"]}}"#);
    let ring = plans::tests::plan().replace(&edge("h0", "h2"), &edge("h1", "h2"));
    let ring = ring.replace(&edge("h1", "h0"), &edge("h2", "h0"));
    std::fs::write(&file, ring).expect("written");
    let mut bench = Bench::new();
    bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.kernel.open(at(0, 6000), at(2, 4100));
    let mut view = planned(&file);
    view.peers = vec![peer(1, PeerKind::Connected, 4000, 1, 5000), peer(2, PeerKind::Accepted, 6000, 2, 4100)];
    let (mut events, job) = (Vec::new(), job_of(Some(0), "gather"));
    bench.monitor.appeared(ProcessKey::Pid(9), Process::of_view(view, JobSource::Env, Some(0)), &mut events);
    events.extend(bench.poll(5));
    assert_eq!(opened(&events).len(), 2, "either may send as far as is known");
    let following = plans::tests::ask(&file, 3, nix::unistd::geteuid().as_raw());
    assert!(following.plan().is_some(), "{following:?}");
    bench.monitor.jobs.get_mut(&job).expect("there").following = following;
    bench.monitor.rematch = true;
    let events = bench.poll(5);
    let closed: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::FlowClosed(_))).collect();
    let back = tuple::Tuple::of(at(0, 6000), at(2, 4100)).outgoing(HostId::of("h0"));
    assert_eq!(closed, [&Event::FlowClosed(back)]);
    assert!(bench.poll(5).iter().all(|event| !matches!(event, Event::FlowClosed(_))), "once");
}

#[test]
fn a_job_whose_plan_is_no_good_runs_as_if_it_had_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("plan.json");
    for text in [None, Some(plans::tests::plan().replacen("\"weight\":1", "\"weight\":2", 1))] {
        if let Some(text) = &text {
            std::fs::write(&file, text).expect("written");
        }
        let mut bench = Bench::new();
        let events = follow(&mut bench, &file);
        let job = &bench.monitor.jobs[&job_of(Some(0), "gather")];
        assert!(job.following.refused().expect("refused").contains("plan.json"));
        assert_eq!(job.pattern, Pattern::Unknown);
        let specs = opened(&events);
        assert!(specs.len() >= 2 && specs.iter().all(|spec| spec.preds.is_empty() && spec.share == Default::default()));
    }
}
