//! Services that end by a fault start again, soon; with a configuration that is not valid they do not.

use std::time::Duration;

use sluice_units::unit::Unit;

use crate::{UNITS, shipped};

/// The pauses before services start again; docs/operating.md names them. A switch is tried again for ever, so less often; what
/// hosts heard of it counts less with each slot meanwhile, and not at all after ten.
const PAUSES: [(&str, Duration); 2] =
    [("sluiced.service", Duration::from_millis(100)), ("sluice-switch.service", Duration::from_millis(500))];
/// Exit status of both programs for a configuration that is not valid.
const INVALID: &str = "2";

#[test]
fn services_start_again_after_a_fault_whatever_drop_ins_they_have() {
    let services = UNITS.into_iter().filter(|(unit, _)| unit.ends_with(".service"));
    let mut seen = 0;
    for (name, drop_ins) in services {
        let drop_ins: Vec<_> = drop_ins.iter().map(|name| shipped("systemd").join(name)).collect();
        for chosen in [&[][..], &drop_ins[..]] {
            let unit = Unit::read(&shipped("systemd").join(name), chosen).unwrap_or_else(|e| panic!("{e}"));
            let (_, pause) = PAUSES.into_iter().find(|(service, _)| *service == name).expect("a pause");
            assert_eq!((unit.one("Restart"), unit.time("RestartSec")), (Some("on-failure"), Some(pause)), "{name}");
            assert!(unit.words("RestartPreventExitStatus").any(|status| status == INVALID), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_switch_is_tried_again_however_often_it_ended() {
    let unit = Unit::read(&shipped("systemd").join("sluice-switch.service"), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(unit.all("Unit", "StartLimitIntervalSec"), ["0"]);
}
