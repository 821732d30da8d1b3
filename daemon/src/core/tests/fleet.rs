//! A host in a fleet, in virtual time: whose mode holds while etcd is silent for a day, after a hand on it, and after a reload.

use sluice_wire::snapshot::Mode as WireMode;

use super::*;
use crate::conditions::ConditionCode;
use crate::core::fleet::FleetWord;

const DAY_MS: u64 = 86_400_000;

fn word(mode: Option<WireMode>) -> FleetWord {
    FleetWord { group: "rack1".into(), mode, connected: true, ..FleetWord::default() }
}

fn host() -> Site {
    let mut site = Site::new(0, 1, "a");
    site.turn(0);
    site.core.set_mode(now(5), Mode::Observe, None);
    site
}

#[test]
fn a_day_without_etcd_changes_nothing() {
    let mut site = host();
    site.core.join_fleet(now(10), word(Some(WireMode::Active)), false);
    assert_eq!(site.core.mode(), Mode::Active);
    for hour in 1..=24 {
        let ms = hour * DAY_MS / 24;
        let silence = Some(format!("etcd is silent for {} s", ms / 1000));
        site.core.hear_fleet(now(ms), FleetWord { connected: false, silence, ..word(Some(WireMode::Active)) });
        site.turn(ms + 5);
        assert_eq!(site.core.mode(), Mode::Active, "after {hour} h");
        assert!(site.core.conditions().holds(ConditionCode::FleetUnreachable));
    }
    site.core.hear_fleet(now(DAY_MS + 100), word(Some(WireMode::Active)));
    assert!(!site.core.conditions().holds(ConditionCode::FleetUnreachable));
    let status = site.core.fleet_status().expect("it is in a fleet");
    assert_eq!((status.mode, status.by_hand, status.group.as_str()), (Some(WireMode::Active), false, "rack1"));
}

#[test]
fn a_hand_wins_and_what_it_set_for_a_time_ends_in_the_fleets_present_mode() {
    let mut site = host();
    site.core.join_fleet(now(10), word(Some(WireMode::Active)), false);
    // As `sluice mode bypass --for 10s` does.
    site.core.set_mode(now(20), Mode::Bypass, Some(Nanos::from_millis(10_000)));
    site.core.mode_set_by_hand(now(20), true);
    site.core.hear_fleet(now(1_000), word(Some(WireMode::Observe)));
    site.turn(5_000);
    assert_eq!(site.core.mode(), Mode::Bypass);
    assert!(site.core.conditions().holds(ConditionCode::FleetByHand));
    site.turn(10_100);
    assert_eq!(site.core.mode(), Mode::Observe, "the fleet's of now, not the one before");
    assert!(!site.core.conditions().holds(ConditionCode::FleetByHand));
    // For ever, until it is given back.
    site.core.set_mode(now(11_000), Mode::Bypass, None);
    site.core.mode_set_by_hand(now(11_000), false);
    site.core.hear_fleet(now(12_000), word(Some(WireMode::Active)));
    site.turn(DAY_MS);
    assert_eq!(site.core.mode(), Mode::Bypass);
    assert!(site.core.give_back_to_fleet(now(DAY_MS + 10)));
    assert_eq!(site.core.mode(), Mode::Active);
}

#[test]
fn a_reload_with_another_mode_in_the_file_leaves_the_fleets() {
    let mut site = host();
    site.core.join_fleet(now(10), word(Some(WireMode::Active)), false);
    let mut loaded = site.core.loaded().clone();
    loaded.config.mode = if site.core.config().mode == Mode::Bypass { Mode::Observe } else { Mode::Bypass };
    let fabric = site.core.monitor().fabric.clone();
    site.core.reload(loaded.clone(), fabric.clone());
    assert_eq!(site.core.mode(), Mode::Active);
    // A fleet that says nothing of this group leaves the host's own mode.
    let mut alone = host();
    alone.core.join_fleet(now(10), word(None), false);
    alone.core.reload(loaded.clone(), fabric);
    assert_eq!(alone.core.mode(), loaded.config.mode);
    // Whoever stays out for a reason of its own does so in a fleet too; and who is in none is given back to nobody.
    let mut looping = host();
    looping.core.stay_out(now(6), crate::starts::LOOP);
    looping.core.join_fleet(now(10), word(Some(WireMode::Active)), true);
    assert_eq!(looping.core.mode(), Mode::Bypass);
    assert!(!host().core.give_back_to_fleet(now(10)));
}
