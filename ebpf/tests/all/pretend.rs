//! Every tier on this kernel, by what is taken for missing in it: which way is found then, that it is named with its
//! reason, and that flows go back to ordinary TCP by themselves when the process that holds them is killed.

use std::time::{Duration, Instant};

use sluice_ebpf::{Feature, NotTaken, Opened, Options, Tier};
use sluice_schedule::Rate;

use crate::common;
use crate::holder::{self, Holder, TIERS};

/// Orders live for three slots of 60 ms, and for up to half a slot longer; then an acknowledgement has to come.
const BACK: Duration = Duration::from_millis(240);

/// What is found where this is missing.
fn expected(missing: Feature) -> Tier {
    match missing {
        // Without these nothing at all can be told or captured: sockets are only looked at.
        Feature::Btf | Feature::Mmap | Feature::RingBuf | Feature::Iter => Tier::None,
        Feature::StructOps => Tier::SetSockOpt,
        Feature::Link => Tier::StructOpsNoLink,
        Feature::HdrOpt => Tier::StructOps,
    }
}

fn options(missing: &[Feature]) -> Option<Options> {
    Some(Options {
        tiers: TIERS.to_vec(),
        pretend_missing: missing.to_vec(),
        floor: Rate::mbps(1),
        release_to: Some("cubic".into()),
        ..common::options()?
    })
}

/// The reason why a better way is not used names what is missing.
fn assert_named(opened: &Opened, missing: Feature) {
    let better = TIERS.iter().take_while(|tier| **tier != opened.tier).filter(|tier| **tier != Tier::None);
    for tier in better {
        let begin = format!("{}: ", tier.name());
        let reason = opened.reasons.iter().find(|reason| reason.starts_with(&begin));
        let reason =
            reason.unwrap_or_else(|| panic!("{} is passed over in silence: {:?}", tier.name(), opened.reasons));
        assert!(reason.contains(missing.name()), "{reason}");
    }
}

/// Opens what is left without `missing`, has it hold a flow at 50 Mbit/s in a process of its own, kills that, and sees the
/// flow go back to ordinary TCP. `None`: nothing can be opened here.
fn killed_without(net: &common::Net, missing: Feature) -> Option<()> {
    let options = options(&[missing])?;
    let mut kernel = common::open(net, options.clone())?;
    let opened = kernel.opened.as_ref().expect("open");
    assert_eq!(opened.tier, expected(missing), "without {missing}: {:?}", opened.reasons);
    assert_named(opened, missing);
    // Its pins keep what was found; whoever comes next takes it over.
    drop(kernel.opened.take());
    let flows = [common::Flow::start(net, common::port())];
    let [flow] = &flows;
    let mut process = Holder::start(net, &options, &flows, 50);
    holder::held(flow);
    let held = flow.rate_over(Duration::from_millis(300));
    assert!(held < 75.0, "without {missing}: held at 50 Mbit/s, and {held} arrived");
    assert!(process.lives(), "without {missing}");
    let canary = common::Canary::start();
    let killed = Instant::now();
    process.kill();
    let took = holder::plain_after(flow, killed).unwrap_or_else(|| panic!("without {missing}: never given back"));
    let (_, late) = canary.finish();
    let free = flow.rate_over(Duration::from_millis(300));
    let tier = expected(missing).name();
    eprintln!("without {missing}: {tier}, plain {took:?} after kill -9, {free:.0} Mbit/s, timers up to {late:?} late");
    assert!(took <= BACK + late, "without {missing}: {took:?}");
    assert!(free > 100.0, "without {missing}: plain, and only {free} Mbit/s");
    Some(())
}

/// Promises: P-1, P-27
#[test]
fn each_tier_that_paces_lets_go_when_its_process_is_killed() {
    let Some(net) = common::net_alone() else { return };
    for missing in Feature::ALL.into_iter().filter(|missing| expected(*missing) != Tier::None) {
        if killed_without(&net, missing).is_none() {
            return;
        }
    }
}

/// Promises: P-27
#[test]
fn what_cannot_pace_says_so_and_leaves_every_flow_alone() {
    let Some(net) = common::net() else { return };
    for missing in Feature::ALL.into_iter().filter(|missing| expected(*missing) == Tier::None) {
        let Some(options) = options(&[missing]) else { return };
        let Some(mut kernel) = common::open(&net, options.clone()) else { return };
        let opened = kernel.opened.as_ref().expect("open");
        assert_eq!(opened.tier, Tier::None, "without {missing}");
        assert_named(opened, missing);
        assert!(!options.pin_dir().exists(), "a tier that failed has left {}", options.pin_dir().display());
        let flows = [common::Flow::start(&net, common::port())];
        let [flow] = &flows;
        let before = flow.control();
        let refused = kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(50)));
        assert_eq!(refused, Err(NotTaken::Refused(libc::EOPNOTSUPP)), "without {missing}");
        // Its process lives, does nothing to the flow, and nothing changes when it is killed.
        let mut process = Holder::start(&net, &options, &flows, 50);
        std::thread::sleep(Duration::from_millis(200));
        assert!(process.lives() && !holder::is_held(flow), "without {missing}");
        process.kill();
        assert_eq!(flow.control(), before, "without {missing}");
        assert!(flow.rate_over(Duration::from_millis(100)) > 50.0, "without {missing}");
        assert!(kernel.path().wake_fd().is_none());
    }
}

#[test]
fn with_everything_missing_there_is_no_way_and_every_reason_is_told() {
    let Some(net) = common::net() else { return };
    let Some(all) = options(&Feature::ALL) else { return };
    let enforcing = Options { tiers: TIERS[..3].to_vec(), ..all };
    let error = net.in_a(|| sluice_ebpf::Kernel::open(&enforcing)).err().expect("nothing is left").to_string();
    for tier in &TIERS[..3] {
        assert!(error.contains(&format!("{}: ", tier.name())), "{error}");
    }
}
