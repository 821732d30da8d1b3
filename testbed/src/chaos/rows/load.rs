//! L1 and L3 to L5: many hosts, a flood, many flows, a large topology.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_schedule::{Nanos, Rate};
use sluice_wire::snapshot::Counters;

use crate::chaos::figure::{Figure, Unit, worst};
use crate::chaos::ground::{Ground, OF_MANY, Setting, Stage, Unrun, also, must_be_managed_soon, silence_bound, sluice};
use crate::chaos::inventory::rss_mib;
use crate::chaos::rows::deciding::{between, shown, within};
use crate::chaos::rows::partition::is_fresh;
use crate::chaos::streams::{PORT, Streams, TOLD};
use crate::experiment::live::Live;
use crate::fabric::{CgroupTree, NetNs};
use crate::run::{KillOnDrop, RunError, write};

/// P-36, of a switch with a thousand hosts.
pub(super) const SWITCH_MIB: f64 = 128.0;
/// For most of thousands of flows to be managed.
const MINUTE: Duration = Duration::from_secs(60);
/// The first hosts of L3, which do as they should. The flood comes from the one after them.
const HONEST: usize = 3;
/// For all of them to be heard before the flood.
const HEARD: Duration = Duration::from_secs(15);
/// Of as many exchanges as there were before so many must be left.
const LEFT: f64 = 0.9;

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
        // What is not known stays so.
        let grown = (number(&long, "rss_mib") - number(&short, "rss_mib")).clamp(0.0, f64::INFINITY);
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
        Figure::at_most("memory", number(&long, "rss_mib"), Unit::Mib, SWITCH_MIB),
    ];
    Ok(figures.into_iter().chain(grown).collect())
}

/// What became of a host's exchanges with its switch in some time.
#[derive(Clone, Copy, Debug)]
struct Exchanged {
    /// NaN: there were none.
    p99_ms: f64,
    /// In each slot one at most is timed. NaN: no slot has passed.
    each_slot: f64,
}

impl Exchanged {
    fn between(before: &Counters, after: &Counters) -> Exchanged {
        let seen = between(&before.exchange_s, &after.exchange_s);
        let slots = after.slots.saturating_sub(before.slots);
        Exchanged { p99_ms: within(&seen, 0.99), each_slot: seen.count() as f64 / slots as f64 }
    }
}

/// What the honest hosts of L3 have counted.
fn counted(stage: &Stage) -> Result<Vec<Counters>, RunError> {
    let gone = |host: usize| RunError::Plan(format!("the daemon of h{host} does not answer"));
    let of = |host: usize| stage.snapshot(host).map(|seen| seen.counters).ok_or_else(|| gone(host));
    (0..HONEST).map(of).collect()
}

/// The exchanges of each of them between two times.
fn exchanged(before: &[Counters], after: &[Counters]) -> Vec<Exchanged> {
    before.iter().zip(after).map(|(before, after)| Exchanged::between(before, after)).collect()
}

/// L3: connections and bytes that mean nothing, as fast as they go.
pub fn flood(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("flood", 6, Rate::mbps(200)))?;
    let seconds = ground.sized(20, 4);
    for host in 0..HONEST {
        if stage.until(host, HEARD, is_fresh)?.is_none() {
            return Err(RunError::Plan(format!("h{host} does not hear the switch before the flood")).into());
        }
    }
    let (mut looks, mut missed) = (0_usize, 0_usize);
    let first = counted(&stage)?;
    stage.live.run_for(Duration::from_secs(seconds))?;
    let steady = counted(&stage)?;
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let to = SocketAddrV4::new(stage.live.fabric.management_address, 9604);
    let (halt, count) = (Arc::clone(&stop), Arc::clone(&made));
    // From a host that is in the network of those that may speak.
    let thread = stage.live.fabric.hosts[HONEST].ns.thread("flood", move || {
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
        for host in 0..HONEST {
            looks += 1;
            missed += usize::from(!stage.snapshot(host).is_some_and(|seen| is_fresh(&seen)));
        }
    }
    stop.store(true, Ordering::Relaxed);
    drop(thread.join());
    let silence = stage.silence(at, Stage::now());
    let flooded = counted(&stage)?;
    let (before, during) = (exchanged(&first, &steady), exchanged(&steady, &flooded));
    // Of each host, what it was during the flood over what it was before.
    let over = |of: fn(&Exchanged) -> f64| {
        before.iter().zip(&during).map(move |(before, during)| of(during) / of(before)).collect::<Vec<f64>>()
    };
    let said = |of: fn(&Exchanged) -> f64| {
        let each = before.iter().zip(&during).enumerate();
        each.map(|(host, (before, during))| format!("h{host} {:.2}, before {:.2}", of(during), of(before)))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let p99: fn(&Exchanged) -> f64 = |seen| seen.p99_ms;
    let each_slot: fn(&Exchanged) -> f64 = |seen| seen.each_slot;
    Ok(vec![
        Figure::at_least("connections that the flood made", made.load(Ordering::Relaxed) as f64, Unit::Count, 100.0),
        Figure::at_most(
            format!("looks at which an honest host's view is not fresh, part of {looks}"),
            missed as f64 / looks as f64,
            Unit::Ratio,
            0.01,
        ),
        Figure::at_most("its exchange, p99, over that before, most", worst(over(p99), f64::max), Unit::Ratio, 2.0)
            .noted(format!("ms: {}", said(p99))),
        Figure::at_least(
            "its exchanges in a slot, over those before, least",
            worst(over(each_slot), f64::min),
            Unit::Ratio,
            LEFT,
        )
        .noted(said(each_slot)),
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
    let wanted = must_be_managed_soon(flows);
    stage.many_captured(wanted, MINUTE)?;
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
    let seconds = (ground.minutes * 60.0).max(10.0);
    let pid = stage.live.daemons.pid(0);
    let (before, cpu, began) = (shown(&stage)?, stage.live.fabric.cgroups.daemon(0).cpu_us(), Instant::now());
    let mut rss = rss_mib(pid).unwrap_or(0.0);
    while began.elapsed().as_secs_f64() < seconds {
        stage.live.run_for(Duration::from_secs(1))?;
        stage.live.samples.clear();
        rss = rss.max(rss_mib(pid).unwrap_or(f64::INFINITY));
    }
    let (after, spent) = (shown(&stage)?, stage.live.fabric.cgroups.daemon(0).cpu_us() - cpu);
    let wall = began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    drop(churn.join());
    drop(sink);
    // Each of the job's members tells of its flows twice a second.
    stage.live.run_for(Duration::from_secs(2))?;
    let driven = stage.driven();
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
        Figure::exactly("slots whose decision came after their end", usize::try_from(late).unwrap_or(usize::MAX), 0),
        Figure::at_most("processor time of the daemon, part of a core", spent as f64 / 1e6 / wall, Unit::Ratio, 0.25),
        Figure::at_most("memory of the daemon, most", rss, Unit::Mib, 64.0),
        Figure::at_least(
            "connections that came and went, a second",
            opened.load(Ordering::Relaxed) as f64 / wall,
            Unit::Count,
            30.0,
        ),
        Figure::at_least(format!("flows managed at the end, of {flows}"), driven as f64, Unit::Count, wanted as f64)
            .noted(OF_MANY),
    ])
}

/// Hosts that are linked, both ways, with all that differ in one digit of their number, as `topology.json`; each digit has so
/// many bits.
fn grid(digits: &[u32]) -> String {
    let nodes = 1_u32 << digits.iter().sum::<u32>();
    let mut text = String::from("{\"sluice_topology\":1,\"name\":\"grid\",\"nodes\":[");
    for node in 0..nodes {
        _ = write!(text, "{}{{\"id\":\"n{node}\",\"kind\":\"host\"}}", if node == 0 { "" } else { "," });
    }
    text += "],\"links\":[";
    for (at, (from, to)) in (0..nodes).flat_map(|from| others(digits).map(move |by| (from, from ^ by))).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        _ = write!(text, "{comma}{{\"from\":\"n{from}\",\"to\":\"n{to}\",\"capacity\":\"100Gbit/s\"}}");
    }
    text + "]}"
}

/// By what the numbers of hosts with a link between them may differ.
fn others(digits: &[u32]) -> impl Iterator<Item = u32> {
    let shifts = digits.iter().scan(0, |shift, bits| Some(std::mem::replace(shift, *shift + bits)));
    digits.iter().zip(shifts).flat_map(|(bits, shift)| (1..1_u32 << bits).map(move |digit| digit << shift))
}

/// L5: a plan for more than twenty thousand links, and a file with one link too many.
/// Promises: P-36
pub fn planner(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let program = ground.bench.binaries.sluice().map_err(|why| Unrun::Lacks(why.to_string()))?;
    let dir = ground.bench("planner")?.dir;
    // As many links as the row says, and few enough hosts for the sends of a plan to stay within the planner's limit.
    let digits = ground.core_sized([2, 2, 3, 3], [2, 2, 2, 3], [1, 1, 2, 2]);
    let large = dir.join("grid.json");
    write(&large, grid(&digits))?;
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
    let links = (1_usize << digits.iter().sum::<u32>()) * others(&digits).count();
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
    fn a_host_without_an_exchange_has_none_that_was_quick() {
        let (before, mut after) = (Counters::default(), Counters::default());
        let none = Exchanged::between(&before, &after);
        assert!(none.p99_ms.is_nan() && none.each_slot.is_nan());
        after.slots = 4;
        (0..3).for_each(|_| after.exchange_s.observe(0.002));
        let some = Exchanged::between(&before, &after);
        assert!(some.p99_ms > 1.0 && some.p99_ms <= 2.0 + 1e-9, "{some:?}");
        assert!((some.each_slot - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_grid_is_a_topology_with_its_links() {
        let text = grid(&[1, 2]);
        let read =
            sluice_formats::topology::Topology::read(text.as_bytes(), "g.json").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((read.nodes().len(), read.links().len()), (8, 8 * (1 + 3)));
        assert_eq!(others(&[2, 2, 3, 3]).count() << 10, 20_480);
    }
}
