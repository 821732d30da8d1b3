//! Every condition has something that raises it, which is done here, and a row in docs/operating.md.

use sluice_ebpf::Tier;
use sluice_fleet::view::Fault;
use sluice_realtime::{Overrun, Refusal, Standing};
use sluice_schedule::Feedback;
use sluice_wire::timeline::Filter;

use super::*;
use crate::conditions::ConditionCode;
use crate::config::ClockSource;
use crate::core::fleet::FleetWord;
use crate::monitor::namespaces::Uncovered;
use crate::monitor::plans::Following;

/// A host that runs and is well: an orderly clock, a switch that answers, a job.
fn well() -> Star {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.sites[0].inbox.push(Inbound::Back { holder: HolderId::of("s"), slot_diff: 0, offset_ns: Some(0) });
    star.run(0, 900);
    star
}

/// The switch hears nothing of it; what comes is what `answer` says. Until `to`, which is returned.
fn alone(site: &mut Site, to: u64, mut answer: impl FnMut(u64) -> Option<Inbound>) -> u64 {
    for ms in (900..to).step_by(5) {
        site.inbox.extend(answer(ms));
        site.turn(ms);
    }
    to
}

/// Brings about what the condition says, in the way in which it comes about. A code without an arm does not compile.
fn raise(code: ConditionCode, site: &mut Site) {
    let holder = HolderId::of("s");
    let lost = |mismatch| Inbound::Lost { holder, why: "gone".into(), mismatch };
    let mut ms = 900;
    match code {
        ConditionCode::ClockUnsafe => {
            (site.core.clock.why, site.core.clock.trust) = (Some("no time service".into()), ClockTrust::Untrusted);
        }
        ConditionCode::ClockTaiUnset => {
            site.core.config.clock.source = ClockSource::Tai;
            site.core.clock.kernel = Some(KernelClock::default());
            (site.core.clock.why, site.core.clock.trust) = (Some("the TAI offset is 0".into()), ClockTrust::Untrusted);
        }
        ConditionCode::SwitchUnreachable | ConditionCode::FeedbackLocalOnly => {
            site.inbox.push(lost(false));
            ms = alone(site, 2_400, |_| None);
        }
        ConditionCode::FeedbackStale => {
            // It answers, but lives in another slot, so that its view does not count.
            let refused = Some(sluice_schedule::Refusal::SlotGuard);
            let feedback = Feedback { boot: BootId(99), warm: true, refused, ..Feedback::default() };
            ms = alone(site, 2_400, |ms| {
                Some(Inbound::Feedback { holder, feedback: feedback.clone(), at: now(ms).mono })
            });
        }
        ConditionCode::FeedbackDoubted => {
            // Another process with every word, on one connection.
            ms = alone(site, 1_200, |ms| {
                let feedback = Feedback { boot: BootId(ms), warm: true, ..Feedback::default() };
                Some(Inbound::Feedback { holder, feedback, at: now(ms).mono })
            });
        }
        ConditionCode::EnforcementFallback => site.core.note_tier(1, Tier::SetSockOpt, &["no BTF".into()]),
        ConditionCode::EnforcementNone => site.core.note_tier(1, Tier::None, &["no BPF".into()]),
        ConditionCode::NetnsUncovered => {
            site.core.monitor.uncovered = Uncovered { count: 2, why: "Operation not permitted".into() };
        }
        ConditionCode::FlowTableFull => site.kernel.rows().counters.table_full = 1,
        ConditionCode::LossGuard => {
            let row = site.row;
            site.kernel.rows().stats.get_mut(&row).expect("open").loss_guard = true;
        }
        ConditionCode::SlotsLate => {
            // It stands still for two thirds of the time.
            for slot in (16..400).step_by(3) {
                site.turn(slot * 60);
            }
            ms = 24_000;
        }
        ConditionCode::EventsLost => site.kernel.rows().counters.events_lost = 1,
        ConditionCode::NotHelping => ms = super::benefit::until_released(site),
        ConditionCode::ForeignChange => site.kernel.rows().counters.foreign = 1,
        ConditionCode::ConfigRejected => site.core.config_rejected(1, Some("line 3".into())),
        ConditionCode::PathsUnknown => {
            let fabric = Rc::new(crate::fabric::Fabric::new(&site.core.config, None, &[]));
            site.core.reload(site.core.loaded.clone(), fabric);
        }
        ConditionCode::LinkSpeedUnknown => {
            let card = crate::interfaces::Interface {
                name: "eth0".into(),
                card: "eth0".into(),
                addresses: vec![std::net::Ipv4Addr::new(10, 0, 0, 1).into()],
                speed: None,
                up: true,
            };
            let fabric = Rc::new(crate::fabric::Fabric::new(&site.core.config, None, &[card]));
            site.core.reload(site.core.loaded.clone(), fabric);
        }
        ConditionCode::LinkSpeedDiffers => {
            let card = crate::interfaces::Interface {
                name: "eth0".into(),
                card: "eth0".into(),
                addresses: vec![std::net::Ipv4Addr::new(10, 0, 0, 1).into()],
                speed: Some(Rate::mbps(10)),
                up: true,
            };
            let link = crate::config::LinkEntry { name: "eth0".into(), gbps: Some(100.0), ..Default::default() };
            let config = Config { links: vec![link], ..site.core.config.clone() };
            let fabric = Rc::new(crate::fabric::Fabric::new(&config, None, &[card]));
            assert_eq!(fabric.links[0].capacity, Some(Rate::mbps(10).payload()));
            site.core.reload(site.core.loaded.clone(), fabric);
        }
        ConditionCode::RoutesUnprobed => site.core.config.probe.routes = true,
        ConditionCode::PlanRejected => {
            let job = site.core.monitor.jobs.values_mut().next().expect("one");
            job.following = Following::Refused("plan.json: no such file".into());
        }
        ConditionCode::ClusterMismatch => {
            site.inbox.push(lost(true));
        }
        ConditionCode::RanksUnknown => {
            site.core.config.switches[0].transport = crate::config::Transport::Udp;
        }
        ConditionCode::PeersOpen => {
            site.core.config.peer.open = true;
            site.core.judge_peers(1);
        }
        ConditionCode::Unauthenticated => {
            site.core.config.unauthenticated = true;
            site.core.config.tls = Default::default();
            site.core.config.switches[0].address = crate::config::value::HostPort::parse("10.9.9.9:1").expect("good");
            site.core.judge_peers(1);
        }
        ConditionCode::CertExpired | ConditionCode::CertExpiresSoon | ConditionCode::CertificatesUnusable => {
            use sluice_identity::{Fault, Life, Standing};
            let life = match code {
                ConditionCode::CertExpired => Some(Life::Over),
                ConditionCode::CertExpiresSoon => Some(Life::Soon),
                _ => None,
            };
            let fault = life.is_none().then(|| Fault::KeyMode { path: "/k".into(), mode: 0o644 });
            site.core.judge_certificate(1, Some(Standing { life, fault, ..Standing::default() }));
        }
        ConditionCode::RdmaUnmanaged => {
            let root = tempfile::tempdir().expect("a directory");
            std::fs::create_dir_all(root.path().join("mlx5_0/ports/1")).expect("made");
            site.core.note_rdma(1, &crate::rdma::devices(root.path()));
        }
        ConditionCode::RealtimeRefused => site.core.note_realtime(1, Standing::Refused(Refusal::Permission)),
        ConditionCode::RealtimeOverrun => {
            site.core.note_realtime(1, Standing::Overran(Overrun::Share { percent: 80, bound: 50 }));
        }
        ConditionCode::FleetUnreachable => {
            let silence = Some("etcd is silent for 61 s".to_owned());
            site.core.join_fleet(now(895), FleetWord { silence, ..FleetWord::default() }, false);
        }
        ConditionCode::FleetRejected => {
            let fault = Fault { subject: "hosts/modes/rack1".into(), sentence: "E_RANGE".into() };
            site.core.join_fleet(now(895), FleetWord { faults: vec![fault], ..FleetWord::default() }, false);
        }
        ConditionCode::FleetByHand => {
            site.core.join_fleet(now(895), FleetWord::default(), false);
            site.core.mode_set_by_hand(now(895), false);
        }
        ConditionCode::RestartLoop => site.core.stay_out(now(895), crate::starts::LOOP),
        ConditionCode::Unknown => unreachable!("of a later version"),
    }
    site.turn(ms);
}

#[test]
fn every_condition_is_raised_by_what_it_says() {
    for code in ConditionCode::ALL {
        let mut star = well();
        let said: Vec<_> = star.sites[0].core.conditions.iter().map(|condition| condition.code).collect();
        assert_eq!(said, [], "nothing is wrong at first");
        raise(*code, &mut star.sites[0]);
        let said: Vec<_> = star.sites[0].core.conditions.iter().map(|condition| condition.code).collect();
        assert!(said.contains(code), "{} is not among {said:?}", code.as_str());
    }
}

#[test]
fn the_time_line_says_when_a_condition_began_and_ended() {
    let mut star = well();
    let site = &mut star.sites[0];
    let orderly = site.core.clock.clone();
    raise(ConditionCode::ClockUnsafe, site);
    site.core.clock = orderly;
    site.turn(960);
    let mut text = Vec::new();
    site.core.timeline.lock().expect("no panic").chrome(&mut text, &Filter::default()).expect("written");
    let trace: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let told: Vec<(&str, f64)> = events
        .iter()
        .filter(|event| event["name"] == "clock-unsafe")
        .map(|event| (event["ph"].as_str().expect("a kind"), event["ts"].as_f64().expect("a time")))
        .collect();
    assert!(matches!(told[..], [("b", began), ("e", ended)] if ended - began == 60_000.0), "{told:?}");
}

#[test]
fn what_is_said_of_the_real_time_thread_is_what_holds_of_it_now() {
    let mut star = well();
    let core = &mut star.sites[0].core;
    let steps = [
        (Standing::Refused(Refusal::Permission), Some(ConditionCode::RealtimeRefused)),
        (Standing::Realtime, None),
        (Standing::Overran(Overrun::Slice { bound: Nanos::from_millis(100) }), Some(ConditionCode::RealtimeOverrun)),
        (Standing::Refused(Refusal::Elsewhere), Some(ConditionCode::RealtimeRefused)),
        (Standing::Ordinary, None),
    ];
    for (standing, code) in steps {
        core.note_realtime(1, standing);
        let said: Vec<_> = core.conditions.iter().map(|condition| condition.code).collect();
        assert_eq!(said, Vec::from_iter(code), "{standing:?}");
    }
}

#[test]
fn the_guide_has_a_row_for_every_condition_and_for_no_other() {
    let guide = include_str!("../../../../docs/operating.md");
    let table = guide.split("\n## ").find(|section| section.starts_with("Conditions")).expect("the section is there");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut told: Vec<&str> = rows.collect();
    let mut known: Vec<&str> = ConditionCode::ALL.iter().map(|code| code.as_str()).collect();
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
}
