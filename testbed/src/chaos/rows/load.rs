//! L1 to L5: many hosts, all of them at once, a flood, many flows, a large topology.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_wire::snapshot::{Snapshot, View};

use crate::chaos::figure::{Figure, Unit, quantile};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, also, silence_bound, sluice};
use crate::chaos::inventory::rss_mib;
use crate::chaos::rows::switches::{between, within};
use crate::chaos::streams::{PORT, Streams, TOLD};
use crate::experiment::capacity::queue;
use crate::experiment::live::Live;
use crate::fabric::{CgroupTree, FabricSpec, NetNs};
use crate::run::{JobPlan, KillOnDrop, Placement, RunError, RunPlan, write};

/// L1: the load generator beside the switch; simulated hosts, real sessions.
/// Promises: P-36
pub fn many_hosts(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let program = ground.bench.binaries.load().map_err(|why| Unrun::Lacks(why.to_string()))?;
    let hosts = ground.core_sized(1000, 200, 20);
    let seconds = (ground.minutes * 60.0).max(15.0) as u64;
    let (ns, tree) = (NetNs::create("load")?, CgroupTree::create(&["load".into()])?);
    ns.ip("link set lo up\n")?;
    // Growth needs two readings: a short run, then the long one, by the same generator.
    let run = |seconds: u64| -> Result<serde_json::Value, Unrun> {
        let mut command = Command::new(&program);
        command.args(["--hosts", &hosts.to_string(), "--seconds", &seconds.to_string()]);
        command.arg("--server").arg(ground.bench.binaries.switch()?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Of a generator that is killed the server is found, and ended, by its cgroup.
        let child = ns.spawn(command, Some(tree.jobs(0).procs()?))?;
        let output = child.wait_with_output().map_err(RunError::io("running the load generator"))?;
        let failed = || RunError::Plan(String::from_utf8_lossy(&output.stderr).into_owned());
        serde_json::from_slice(&output.stdout).map_err(|_| failed().into())
    };
    let short = if seconds > 60 { Some(run(60)?) } else { None };
    let long = run(seconds)?;
    let number = |from: &serde_json::Value, key: &str| from[key].as_f64().unwrap_or(f64::NAN);
    let (missed, p99) = ground.core_sized((0.01, 60.0), (0.005, 15.0), (0.005, 15.0));
    let grown = short.map(|short| {
        let grown = (number(&long, "rss_mib") - number(&short, "rss_mib")).max(0.0);
        Figure::at_most("memory more than after a minute", grown, Unit::Mib, 1.0)
    });
    let figures = vec![
        Figure::at_most(
            format!("missed slots, {hosts} hosts, {seconds} s"),
            number(&long, "missed_slots"),
            Unit::Ratio,
            missed,
        ),
        Figure::at_most("exchange, p99", long["exchange_ms"]["p99"].as_f64().unwrap_or(f64::NAN), Unit::Ms, p99),
        Figure::at_most("processor time per host and slot", number(&long, "cpu_us_per_host_slot"), Unit::Us, 60.0),
        Figure::shown("memory", number(&long, "rss_mib"), Unit::Mib),
    ];
    Ok(figures.into_iter().chain(grown).collect())
}

/// A ring over many hosts that sends little: what makes every host ask the switch.
pub fn wide(hosts: usize, slot: Nanos) -> (RunPlan, Placement) {
    let rate = Rate::mbps(200);
    let job =
        JobPlan { compute: vec![Nanos::from_millis(400)], ..JobPlan::ring("wide", hosts, Bytes(200_000), 1_000_000) };
    let plan = RunPlan {
        name: "wide".into(),
        fabric: FabricSpec::star(hosts, rate, queue(rate)),
        jobs: vec![job],
        slot,
        learned_routes: true,
        ..RunPlan::default()
    };
    (plan, Placement { workers: (0..hosts).collect(), servers: Vec::new() })
}

/// Hosts whose daemons count all views fully.
fn fresh(live: &Live, hosts: usize) -> usize {
    let is = |host: &usize| {
        let text = live.daemons.get(*host, "/api/v1/snapshot").unwrap_or_default();
        serde_json::from_str::<Snapshot>(&text).is_ok_and(|seen| {
            !seen.switches.is_empty() && seen.switches.iter().all(|switch| switch.view == View::Fresh)
        })
    };
    (0..hosts).filter(is).count()
}

/// L2: the switch is killed and started again; everybody connects anew.
/// Promises: P-16
pub fn herd(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let (hosts, times) = ground.core_sized((50, 5), (20, 1), (8, 1));
    // Long, so that two processors carry fifty daemons.
    let (plan, place) = wide(hosts, Nanos::from_millis(200));
    let bench = ground.bench("herd")?;
    let mut live = Live::start(&bench, &plan, &place, &sluice(), 1000)?;
    let all = |live: &mut Live, part: f64| -> Result<Option<f64>, Unrun> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            if fresh(live, hosts) as f64 >= hosts as f64 * part {
                return Ok(Some(began.elapsed().as_secs_f64()));
            }
            live.run_for(Duration::from_millis(100))?;
        }
        Ok(None)
    };
    all(&mut live, 1.0)?.ok_or_else(|| RunError::Plan("not all hosts hear the switch within a minute".into()))?;
    let (mut took, mut rss) = (Vec::new(), 0.0_f64);
    for _ in 0..times {
        live.daemons.kill_switch(0);
        live.run_for(Duration::from_secs(4))?;
        live.daemons.start_switch_again(&live.fabric, 0)?;
        took.push(all(&mut live, 0.99)?.unwrap_or(f64::INFINITY));
        rss = rss.max(rss_mib(live.daemons.switch_pid(0)).unwrap_or(f64::NAN));
    }
    let median = quantile(&mut took, 0.5);
    Ok(vec![
        Figure::at_most(
            format!("until 99 % of {hosts} hosts are fresh, most of {times}"),
            quantile(&mut took, 1.0),
            Unit::Seconds,
            5.0,
        )
        .noted(format!("median {median:.1} s; asking all of them takes part of it")),
        Figure::at_most("memory of the switch", rss, Unit::Mib, 128.0),
    ])
}

/// L3: connections and bytes that mean nothing, as fast as they go.
pub fn flood(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("flood", 6, Rate::mbps(200)))?;
    let seconds = ground.sized(20, 4);
    let gone = || RunError::Plan("the daemon of h0 does not answer".into());
    let exchanges = |stage: &Stage| Ok::<_, RunError>(stage.snapshot(0).ok_or_else(gone)?.counters.exchange_s);
    let (mut looks, mut missed) = (0, 0);
    let first = exchanges(&stage)?;
    stage.live.run_for(Duration::from_secs(seconds))?;
    let steady = exchanges(&stage)?;
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let to = SocketAddrV4::new(stage.live.fabric.management_address, 9604);
    let (halt, count) = (Arc::clone(&stop), Arc::clone(&made));
    // From a host that is in the network of those that may speak.
    let thread = stage.live.fabric.hosts[3].ns.thread("flood", move || {
        let junk = vec![0xa5; 64 << 10];
        while !halt.load(Ordering::Relaxed) {
            let Ok(mut stream) = TcpStream::connect_timeout(&to.into(), Duration::from_millis(500)) else { continue };
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
            // A beginning that is right, and then anything; it is closed sooner or later.
            let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            let _ = stream.write_all(&junk);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
            let _ = stream.read(&mut [0; 256]);
        }
    })?;
    let at = Stage::now();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        stage.live.run_for(Duration::from_millis(60))?;
        let Some(seen) = stage.snapshot(0) else { continue };
        looks += 1;
        missed += usize::from(!seen.switches.iter().all(|switch| switch.view == View::Fresh));
    }
    stop.store(true, Ordering::Relaxed);
    drop(thread.join());
    let silence = stage.silence(at, Stage::now());
    let flooded = exchanges(&stage)?;
    let [before, during] = [between(&first, &steady), between(&steady, &flooded)].map(|seen| within(&seen, 0.99));
    Ok(vec![
        Figure::at_least("connections that the flood made", made.load(Ordering::Relaxed) as f64, Unit::Count, 100.0),
        Figure::at_most(
            format!("looks at which an honest host's view is not fresh, of {looks}"),
            missed as f64 / f64::from(looks.max(1)),
            Unit::Ratio,
            0.01,
        ),
        Figure::at_most("its exchange, p99, over that before", during / before.max(1e-3), Unit::Ratio, 2.0)
            .noted(format!("{during:.2} ms, before {before:.2} ms")),
        Figure::at_most("longest silence of a flow", silence, Unit::Ms, silence_bound(Rate::mbps(10))),
    ])
}

/// L4: as many flows as a table has rows for, and a hundred connections that come and go each second.
/// Promises: P-36
pub fn many_flows(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let flows = ground.core_sized(4096, 512, 64);
    let rate = Rate::mbps(ground.core_sized(2000, 500, 200));
    let setting = Setting { sample_ms: 500, more: TOLD.into(), ..Setting::of("many-flows", flows, rate) };
    let bench = ground.bench(&setting.name)?;
    let (mut plan, place) = setting.plan();
    // Rounds of a training job's length: beginning and ending them is part of the cost.
    plan.jobs.iter_mut().for_each(|job| {
        job.bytes = plan.fabric.payload(rate).over(Nanos::from_millis(400));
        job.compute = vec![Nanos::from_millis(200)];
        job.iterations = 1_000_000;
    });
    let dir = bench.dir.join("live");
    for host in &plan.fabric.hosts {
        also(&dir, host, TOLD)?;
    }
    let live = Live::start(&bench, &plan, &place, &sluice(), setting.sample_ms)?;
    let mut stage = Stage { live, plan, dir };
    stage.live.run_for(Duration::from_secs(10))?;
    let (near, far) = (&stage.live.fabric.hosts[0].ns, &stage.live.fabric.hosts[1]);
    let sink = Streams::open(near, &far.ns, far.address, PORT, 0)?;
    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (halt, count, to) = (Arc::clone(&stop), Arc::clone(&opened), SocketAddrV4::new(far.address, PORT));
    let churn = near.thread("churn", move || {
        while !halt.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            if let Ok(mut stream) = TcpStream::connect_timeout(&to.into(), Duration::from_secs(1)) {
                let _ = stream.write_all(&[1; 4096]);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    })?;
    let gone = || RunError::Plan("the daemon of h0 does not answer".into());
    let seconds = (ground.minutes * 60.0).max(10.0);
    let pid = stage.live.daemons.pid(0);
    let (before, cpu, began) =
        (stage.snapshot(0).ok_or_else(gone)?, stage.live.fabric.cgroups.daemon(0).cpu_us(), Instant::now());
    let mut rss = rss_mib(pid).unwrap_or(0.0);
    while began.elapsed().as_secs_f64() < seconds {
        stage.live.run_for(Duration::from_secs(1))?;
        stage.live.samples.clear();
        rss = rss.max(rss_mib(pid).unwrap_or(f64::INFINITY));
    }
    let (after, spent) = (stage.snapshot(0).ok_or_else(gone)?, stage.live.fabric.cgroups.daemon(0).cpu_us() - cpu);
    let wall = began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    drop(churn.join());
    drop(sink);
    let decision = within(&between(&before.counters.decision_s, &after.counters.decision_s), 0.99);
    let late = after.counters.slots_late - before.counters.slots_late;
    let out = after.counters.released_deadline - before.counters.released_deadline;
    Ok(vec![
        Figure::at_most(
            format!("p99 of a decision with {flows} flows, {seconds:.0} s"),
            decision,
            Unit::Ms,
            ground.core_sized(5.0, 2.0, 2.0),
        ),
        Figure::exactly("orders that ran out", usize::try_from(out).unwrap_or(usize::MAX), 0),
        Figure::shown("slots whose decision came after their end", late as f64, Unit::Count),
        Figure::at_most("processor time of the daemon, part of a core", spent as f64 / 1e6 / wall, Unit::Ratio, 0.25),
        Figure::at_most("memory of the daemon, most", rss, Unit::Mib, 64.0),
        Figure::at_least(
            "connections that came and went, a second",
            opened.load(Ordering::Relaxed) as f64 / wall,
            Unit::Count,
            30.0,
        ),
        Figure::shown("flows managed at the end", stage.managed(0) as f64, Unit::Count),
    ])
}

/// A hypercube of so many dimensions, as `topology.json`.
fn hypercube(dimensions: u32) -> String {
    let nodes = 1_u32 << dimensions;
    let mut text = String::from("{\"sluice_topology\":1,\"name\":\"hypercube\",\"nodes\":[");
    for node in 0..nodes {
        _ = write!(text, "{}{{\"id\":\"n{node}\",\"kind\":\"host\"}}", if node == 0 { "" } else { "," });
    }
    text += "],\"links\":[";
    let pairs = (0..nodes).flat_map(|node| (0..dimensions).map(move |bit| (node, node ^ (1 << bit))));
    for (at, (from, to)) in pairs.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        _ = write!(text, "{comma}{{\"from\":\"n{from}\",\"to\":\"n{to}\",\"capacity\":\"100Gbit/s\"}}");
    }
    text + "]}"
}

/// L5: a plan for more than twenty thousand links, and a file with one link too many.
/// Promises: P-36
pub fn planner(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let program = ground.bench.binaries.sluice().map_err(|why| Unrun::Lacks(why.to_string()))?;
    let dir = ground.bench("planner")?.dir;
    let dimensions = ground.core_sized(11, 9, 6);
    let large = dir.join("hypercube.json");
    write(&large, hypercube(dimensions))?;
    let run = |file: &Path| -> Result<(Option<i32>, f64, f64, String), Unrun> {
        let mut command = Command::new(&program);
        command.args(["plan", "bfb", "--collective", "all-gather", "--topology"]).arg(file);
        command
            .arg("--out")
            .arg(dir.join("plan.json"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        crate::sys::die_with_parent(&mut command, None);
        let began = Instant::now();
        let mut child = KillOnDrop(command.spawn().map_err(RunError::io("running sluice plan"))?);
        let (pid, mut most) = (child.0.id(), 0.0_f64);
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(RunError::io("waiting for sluice plan"))? {
                break status;
            }
            if began.elapsed() > Duration::from_secs(600) {
                return Err(RunError::Plan("sluice plan has not ended after 600 s".into()).into());
            }
            most = most.max(rss_mib(pid).unwrap_or(0.0));
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        if let Some(err) = child.0.stderr.take() {
            // What it says beyond is of no interest.
            drop(err.take(64 << 10).read_to_string(&mut said));
        }
        Ok((status.code(), began.elapsed().as_secs_f64(), most, said))
    };
    let (exit, took, most, said) = run(&large)?;
    let beyond = dir.join("beyond.json");
    let text = "{\"sluice_topology\":1,\"name\":\"beyond\",\"nodes\":[{\"id\":\"a\",\"kind\":\"host\"},{\"id\":\"b\",\"kind\":\"host\"}],\
                \"links\":[{\"from\":\"a\",\"to\":\"b\",\"capacity\":\"1Gbit/s\",\"count\":1000001}]}";
    write(&beyond, text)?;
    let (refused, quick, _, why) = run(&beyond)?;
    let code = |exit: Option<i32>| exit.map_or(usize::MAX, |code| usize::try_from(code).unwrap_or(usize::MAX));
    let links = (1_u64 << dimensions) * u64::from(dimensions);
    Ok(vec![
        Figure::exactly(format!("exit status of a plan for {links} links"), code(exit), 0)
            .noted(said.lines().last().unwrap_or_default().to_owned()),
        Figure::at_most("its time", took, Unit::Seconds, 600.0),
        Figure::at_most("its memory", most, Unit::Mib, 4096.0),
        Figure::exactly("exit status for 1,000,001 links", code(refused), 2)
            .noted(why.lines().next().unwrap_or_default().to_owned()),
        Figure::at_most("time until that is refused", quick, Unit::Seconds, 5.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypercube_is_a_topology_with_its_links() {
        let text = hypercube(4);
        let read =
            sluice_formats::topology::Topology::read(text.as_bytes(), "h.json").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((read.nodes().len(), read.links().len()), (16, 64));
    }
}
