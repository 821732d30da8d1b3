//! What a flow may take beyond its order, as the links of its path, the setting and the flow's plan say.

use super::*;
use crate::event::{Allowance, Hop, Term, Terms};

/// A host with a link of 1000 Mbit/s, and the link it receives by at 600.
struct Site {
    host: Host,
    flow: FlowId,
}

const EGRESS: Rate = Rate::mbps(1000);
const ELSEWHERE: Rate = Rate::mbps(600);

fn egress() -> LinkId {
    LinkId::egress(HostId::of("h0"))
}

fn elsewhere() -> Hop {
    Hop { link: LinkId(77), capacity: ELSEWHERE, holder: None }
}

impl Site {
    fn new(config: HostConfig, far: bool, terms: Terms) -> Site {
        let mut host = Host::new(config);
        let id = flow(&mut host, 1, "job", 1000);
        let mut path = vec![Hop { link: egress(), capacity: EGRESS, holder: None }];
        path.extend(far.then(elsewhere));
        let spec = FlowSpec { flow: id, job: JobId::of("job"), path, terms, ..FlowSpec::default() };
        host.handle(at(0), Event::FlowOpened(spec));
        host.handle(at(1), Event::RoundBegan { job: JobId::of("job"), flows: vec![(id, Bytes(90_000_000))] });
        Site { host, flow: id }
    }

    /// So much unmanaged traffic for half a second.
    fn see(&mut self, ms: u64, link: LinkId, mbps: u64) {
        let managed = Rate::mbps(100);
        for _ in 0..8 {
            self.host.handle(at(ms), Event::Measured { link, total: managed.plus(Rate::mbps(mbps)), managed });
            self.host.handle(at(ms), Event::SlotEdge);
        }
    }

    /// What the flow is told of a surplus, if it is told anything.
    fn told(&mut self, ms: u64) -> Option<Option<Allowance>> {
        let mut actions = Vec::new();
        self.host.decide(at(ms), &mut actions);
        actions.into_iter().find_map(|action| match action {
            Action::Order { flow, surplus, .. } if flow == self.flow => Some(surplus),
            _ => None,
        })
    }
}

/// It competes for the rest, as ordinary TCP.
fn as_tcp(up_to: Rate) -> Option<Allowance> {
    Some(Allowance { up_to, yields: false })
}

/// It takes what is idle.
fn idle(up_to: Rate) -> Option<Allowance> {
    Some(Allowance { up_to, yields: true })
}

fn config(surplus: SurplusRule, policy: PolicyName) -> HostConfig {
    HostConfig { surplus, policy, reserve: 0.0, ..HostConfig::new(HostId::of("h0"), crate::BootId(1)) }
}

#[test]
fn it_is_allowed_for_ten_seconds_after_unmanaged_traffic_was_seen() {
    let mut site = Site::new(config(SurplusRule::Greedy, PolicyName::SrptP), false, Terms::default());
    assert_eq!(site.told(1), Some(idle(EGRESS)));
    site.see(2, egress(), 10);
    assert_eq!(site.told(2), Some(idle(EGRESS)), "so little is noise");
    site.see(3, egress(), 300);
    assert_eq!(site.told(3), Some(as_tcp(EGRESS)), "at once, whatever becomes of the rate");
    site.see(60, egress(), 0);
    site.see(60, egress(), 0);
    assert_eq!(site.told(9_960), Some(as_tcp(EGRESS)));
    assert!(site.host.competes(at(9_960), egress()) && !site.host.competes(at(10_080), egress()));
    assert_eq!(site.told(10_080), Some(idle(EGRESS)));
}

#[test]
fn it_is_allowed_only_where_every_link_of_the_path_lets_it_and_up_to_the_least() {
    let mut site = Site::new(config(SurplusRule::Greedy, PolicyName::SrptP), true, Terms::default());
    site.see(2, egress(), 300);
    assert_eq!(site.told(2), Some(idle(ELSEWHERE)), "on the other link nobody is to lose by it");
    site.see(3, elsewhere().link, 300);
    assert_eq!(site.told(3), Some(as_tcp(ELSEWHERE)));
}

#[test]
fn the_setting_and_the_policy_decide() {
    use PolicyName::{Fair, PrimalDual, PrimalDualLiteral, SrptP};
    for (rule, policy, unmanaged, expected) in [
        (SurplusRule::Never, SrptP, 300, None),
        (SurplusRule::Always, SrptP, 0, as_tcp(EGRESS)),
        (SurplusRule::Always, PrimalDual, 0, as_tcp(EGRESS)),
        (SurplusRule::Greedy, Fair, 300, as_tcp(EGRESS)),
        (SurplusRule::Greedy, Fair, 0, idle(EGRESS)),
        (SurplusRule::Idle, SrptP, 300, idle(EGRESS)),
        (SurplusRule::Idle, Fair, 0, idle(EGRESS)),
        (SurplusRule::Idle, PrimalDual, 0, None),
        (SurplusRule::Greedy, PrimalDual, 300, None),
        (SurplusRule::Greedy, PrimalDualLiteral, 300, None),
    ] {
        let mut site = Site::new(config(rule, policy), false, Terms::default());
        site.see(1, egress(), unmanaged);
        assert_eq!(site.told(60), Some(expected), "{rule:?} {policy:?} {unmanaged}");
        assert_eq!(site.host.flows().next().map(|flow| flow.surplus), Some(expected));
    }
}

#[test]
fn a_plan_that_gives_its_flows_no_more_than_their_rates_means_it() {
    for fills in [false, true] {
        let term = Term { end: Bytes(90_000_000), rate: Rate::mbps(100), ..Term::default() };
        let terms = Terms { terms: vec![term], fills, by_round: false };
        let mut site = Site::new(config(SurplusRule::Always, PolicyName::SrptP), false, terms);
        assert_eq!(site.told(60), Some(as_tcp(EGRESS).filter(|_| fills)));
    }
}

#[test]
fn the_end_of_a_round_is_told_by_what_a_flow_with_a_surplus_really_takes() {
    // It is held at its floor of 10 Mbit/s behind a shorter round, and takes 400.
    for (rule, expected) in [(SurplusRule::Always, 1_000), (SurplusRule::Never, 40_000)] {
        let mut site = Site::new(config(rule, PolicyName::SrptP), false, Terms::default());
        let short = flow(&mut site.host, 2, "short", 1000);
        let began = Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(9_000_000))] };
        site.host.handle(at(1), began);
        for ms in [1, 2, 3] {
            let delivered = Bytes(40_000_000);
            let progress =
                FlowProgress { flow: site.flow, delivered, rate: Rate::mbps(400), ..FlowProgress::default() };
            site.host.handle(at(ms), Event::Progress(vec![progress]));
            // Something is new, so that ends are predicted anew.
            site.host.handle(at(ms), Event::DemandChanged { flow: short, demand: Bytes(9_000_000 + ms) });
            site.told(ms);
        }
        let flow = &site.host.flows[&site.flow];
        assert_eq!(flow.order, Rate::mbps(10));
        let left = flow.until.minus(at(3).wall).0 / 1_000_000;
        assert!(left.abs_diff(expected) <= expected / 5, "{rule:?}: {left} ms");
    }
}
