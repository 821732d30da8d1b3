//! A job that Sluice slows down, and one that it does not, over hours of virtual time.

use sluice_wire::snapshot::BenefitState;
use sluice_wire::timeline::Filter;

use super::*;
use crate::conditions::ConditionCode;

/// Slots of a window here, and from one to the next.
const WINDOW: u64 = 16;
const PERIOD: u64 = WINDOW * 128;
const PLAIN_MS: u64 = 60;
const COMPUTE_MS: u64 = 60;
const STEP: usize = 30;

/// A host that asks, whose kernel lets sockets go.
fn asking(index: usize, job: &str) -> Site {
    let mut site = Site::new(index, (index + 1) % 4, job);
    site.core.config.enforce.benefit = true;
    site.core.config.enforce.benefit_slots = WINDOW;
    let config = site.core.config.clone();
    site.core.helped.reconfigure(&config);
    site.kernel.rows().lets_go = true;
    site
}

fn job(site: &Site) -> sluice_schedule::JobId {
    *site.core.monitor.jobs.keys().next().expect("one")
}

fn state(site: &Site) -> BenefitState {
    site.core.benefit(job(site)).state
}

/// Lets it train from one moment to another. An iteration communicates for `with` ms while it is paced.
fn train(site: &mut Site, from: u64, to: u64, with: u64, mut look: impl FnMut(&Site, u64)) {
    let (mut next, mut end) = (from, None);
    for ms in (from..to).step_by(STEP) {
        if end.is_some_and(|end| ms >= end) {
            end = None;
            next = ms + COMPUTE_MS;
            site.page(|view| view.state = State::Compute);
            let mut rows = site.kernel.rows();
            rows.stats.values_mut().for_each(|stats| stats.acked = stats.acked.plus(Bytes(1_000_000)));
        } else if end.is_none() && ms >= next {
            let took = if site.core.is_spared(job(site)) { PLAIN_MS } else { with };
            end = Some(ms + took);
            site.iteration += 1;
            let iteration = site.iteration;
            site.page(|view| {
                view.host_monotonic = true;
                view.iteration.count = iteration;
                view.iteration.start_ns = ms * 1_000_000;
                view.iteration.base_bytes = view.enq_bytes;
                view.enq_bytes += 1_000_000;
                view.enq_wire_bytes += 1_000_000;
                view.state = State::OnWire;
            });
        }
        site.turn(ms);
        look(site, ms);
    }
}

/// A host that asks nobody yet is made one that asks, and trains until its job is released; returns when.
pub fn until_released(site: &mut Site) -> u64 {
    *site = asking(site.index, "a");
    site.inbox.push(Inbound::Back { holder: HolderId::of("s"), slot_diff: 0, offset_ns: Some(0) });
    let to = 9 * PERIOD * 60;
    train(site, 0, to, 90, |_, _| {});
    to
}

#[test]
fn a_job_that_is_slower_with_sluice_is_released_says_so_and_is_tried_again() {
    let mut site = asking(0, "a");
    let mut released = None;
    train(&mut site, 0, 9 * PERIOD * 60, 90, |site, ms| {
        if released.is_none() && state(site) == BenefitState::Released {
            released = Some(ms);
        }
    });
    let at = released.expect("it is released");
    assert_eq!(at / 60 % PERIOD, PERIOD / 2, "in a slot that follows from its number alone");
    assert!(at / 60 / PERIOD >= 4, "not for one bad window, and not for three");
    let core = &site.core;
    assert!(core.counters.released_benefit > 0);
    assert!(core.conditions.holds(ConditionCode::NotHelping));
    let snapshot = crate::snapshot::take(core, &crate::facts::Facts::new(core));
    let benefit = snapshot.jobs[0].benefit;
    assert_eq!(benefit.state, BenefitState::Released);
    assert!(benefit.slower_ratio.is_some_and(|ratio| (ratio - 0.25).abs() < 0.01), "{benefit:?}");
    assert!(benefit.windows >= 4 && benefit.retry_ns.is_some(), "{benefit:?}");
    assert!(site.kernel.rows().orders.is_empty(), "it has no order");
    let mut text = Vec::new();
    core.timeline.lock().expect("no panic").chrome(&mut text, &Filter::default()).expect("written");
    // Long ago by now; the ring holds two minutes.
    assert!(!String::from_utf8_lossy(&text).contains("sluice: released"));
    // Nothing but time passes until it is tried again.
    let retry = benefit.retry_ns.expect("it is") / 1_000_000;
    let back = 9 * PERIOD * 60 + retry;
    for ms in (9 * PERIOD * 60..back - 60).step_by(60) {
        site.turn(ms);
        assert_eq!(state(&site), BenefitState::Released, "{ms}");
    }
    train(&mut site, back, back + 3 * WINDOW * 60, 90, |_, _| {});
    assert_eq!(state(&site), BenefitState::Managed);
    assert!(!site.core.conditions.holds(ConditionCode::NotHelping));
    assert!(!site.kernel.rows().orders.is_empty(), "it is paced again");
    let mut text = Vec::new();
    site.core.timeline.lock().expect("no panic").chrome(&mut text, &Filter::default()).expect("written");
    assert!(String::from_utf8_lossy(&text).contains("sluice: managed"));
}

#[test]
fn a_job_that_is_not_slower_is_without_in_windows_only_and_paced_again_at_once() {
    let mut site = asking(0, "a");
    let (mut without, mut slots, mut unpaced) = (0, 0, 0_u64);
    train(&mut site, 0, 7 * PERIOD * 60, PLAIN_MS, |site, ms| {
        assert_ne!(state(site), BenefitState::Released);
        let place = ms / 60 % PERIOD;
        assert_eq!(site.core.helped.without(), place < WINDOW, "{ms}");
        assert_eq!(state(site), if place < WINDOW { BenefitState::Without } else { BenefitState::Managed });
        if ms % 60 == 0 {
            (slots, without) = (slots + 1, without + u64::from(place < WINDOW));
        }
        let ordered = site.kernel.rows().orders.values().any(|(_, expires)| *expires > Nanos::from_millis(ms));
        if place < WINDOW {
            assert!(!ordered || ms < 60, "{ms}: nothing is paced in a window");
        } else if ms > PERIOD * 60 {
            unpaced = if ordered { 0 } else { unpaced + STEP as u64 };
            assert!(unpaced <= 120, "{ms}: not paced for {unpaced} ms");
        }
    });
    assert_eq!(without * 128, slots);
    let benefit = site.core.benefit(job(&site));
    assert!(benefit.windows >= 5 && benefit.slower_ratio.is_some_and(|ratio| ratio.abs() < 0.01), "{benefit:?}");
    assert_eq!(site.core.counters.released_benefit, 0);
}

#[test]
fn every_host_is_without_in_the_same_slots_whatever_jobs_it_has() {
    let mut sites = [asking(0, "a"), asking(1, "b"), asking(2, "c")];
    for slot in (0..WINDOW + 4).chain(PERIOD - 4..PERIOD + WINDOW + 4) {
        for site in &mut sites {
            site.turn(slot * 60 + 7 * site.index as u64);
        }
        let without = sites.each_ref().map(|site| site.core.helped.without());
        assert_eq!(without, [slot % PERIOD < WINDOW; 3], "slot {slot}");
    }
}

#[test]
fn nobody_asks_where_that_cannot_be_or_was_not_wanted() {
    let off = |change: fn(&mut Core)| {
        let mut site = asking(0, "a");
        change(&mut site.core);
        site.turn(60);
        (state(&site), site.core.helped.without())
    };
    assert_eq!(off(|_| {}), (BenefitState::Without, true));
    assert_eq!(off(|core| core.config.enforce.benefit = false), (BenefitState::Off, false));
    assert_eq!(off(|core| core.mode = Mode::Observe), (BenefitState::Off, false));
    // Slots of a clock that is not trusted are not those of the others.
    assert_eq!(off(|core| core.clock.trust = ClockTrust::Untrusted), (BenefitState::Managed, false));
    let spared = off(|core| assert_eq!(core.drain(core.monitor.jobs.keys().next().copied()), 0));
    assert_eq!(spared, (BenefitState::Spared, true));
}

#[test]
fn what_jobs_send_in_a_window_is_not_taken_for_strangers_traffic() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("cross");
    let cross = |asks: bool| {
        let mut site = asking(0, "a");
        site.core.config.enforce.benefit = asks;
        site.core.config.cross_traffic.source = crate::config::CrossSource::File;
        site.core.config.cross_traffic.file = Some(file.clone());
        let config = site.core.config.clone();
        site.core.traffic.reconfigure(&config);
        let mut seen = Vec::new();
        for slot in PERIOD - 8..PERIOD + WINDOW + 8 {
            let carries = (PERIOD..PERIOD + WINDOW).contains(&slot);
            std::fs::write(&file, if carries { "eth0 90000000" } else { "eth0 0" }).expect("written");
            site.turn(slot * 60);
            let egress = sluice_schedule::LinkId::egress(HostId::of("h0"));
            let link = site.core.host.links().find(|link| link.link == egress);
            seen.extend(link.map(|link| link.cross));
        }
        seen.into_iter().max().expect("the link is known")
    };
    assert!(cross(false) > LINK.times(0.05), "outside of windows strangers are left room");
    assert_eq!(cross(true), Rate::ZERO);
}
