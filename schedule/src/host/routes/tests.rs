//! Questions for routes: who is asked how often, whose answers count, and what becomes of old ones.

use proptest::prelude::*;

use super::*;
use crate::event::Hop;
use crate::units::HostId;

const SLOT: Nanos = Nanos::from_millis(60);
const LEAF: HolderId = HolderId(7);
const SPINE: HolderId = HolderId(8);

fn connection(port: u16) -> Connection {
    let end = |last, port| std::net::SocketAddr::from(([10, 0, 0, last], port));
    Connection { source: end(1, port), destination: end(2, 80), protocol: 6 }
}

fn spec(n: u16, path: &[LinkId], forks: &[HolderId]) -> FlowSpec {
    let hop = |link: &LinkId| Hop { link: *link, ..Hop::default() };
    let flow = FlowId(u64::from(HostId(1).0) << 32 | u64::from(n));
    let path = path.iter().map(hop).collect();
    FlowSpec { flow, path, connection: Some(connection(n)), forks: forks.to_vec(), ..FlowSpec::default() }
}

fn answer(spec: &FlowSpec, link: LinkId) -> [Route; 1] {
    [Route { flow: spec.flow, link }]
}

fn routed(spec: &FlowSpec, holder: HolderId, link: Option<LinkId>) -> Action {
    Action::Routed { flow: spec.flow, holder, link }
}

#[test]
fn a_new_flow_is_asked_for_at_once_and_an_answered_one_about_once_a_second() {
    let mut routes = Routes::default();
    let flow = spec(1, &[], &[LEAF]);
    routes.opened(None, &flow);
    let mut now = Nanos::from_millis(5);
    assert!(routes.is_urgent(LEAF) && !routes.asks(SPINE, now));
    assert_eq!(routes.ask(LEAF, now, SLOT), [RouteQuestion { flow: flow.flow, connection: connection(1) }]);
    assert!(!routes.asks(LEAF, now) && !routes.is_urgent(LEAF));
    routes.heard(LEAF, &answer(&flow, LinkId::new(LEAF.0, 3)), now, SLOT);
    assert_eq!(routes.take_news().collect::<Vec<_>>(), [routed(&flow, LEAF, Some(LinkId::new(LEAF.0, 3)))]);
    let mut asked = 0;
    for _ in 0..160 {
        now = now.plus(SLOT);
        let questions = routes.ask(LEAF, now, SLOT);
        asked += questions.len();
        if !questions.is_empty() {
            routes.heard(LEAF, &answer(&flow, LinkId::new(LEAF.0, 3)), now, SLOT);
        }
    }
    assert_eq!((asked, routes.take_news().count()), (10, 0), "the same answer is no news");
    assert_eq!(routes.take_counts(), RouteCounts { asked: 11, answered: 11, unanswered: 0 });
    assert_eq!(routes.take_counts(), RouteCounts::default(), "since the last call");
}

#[test]
fn only_the_asked_holder_counts_and_only_of_its_own_links() {
    let mut routes = Routes::default();
    let (flow, now) = (spec(1, &[], &[LEAF]), Nanos::from_millis(5));
    routes.opened(None, &flow);
    let said = answer(&flow, LinkId::new(LEAF.0, 3));
    routes.heard(LEAF, &said, now, SLOT);
    assert_eq!(routes.take_news().count(), 0, "nobody asked");
    routes.ask(LEAF, now, SLOT);
    routes.heard(SPINE, &said, now, SLOT);
    routes.heard(LEAF, &answer(&flow, LinkId::new(SPINE.0, 3)), now, SLOT);
    assert_eq!(routes.take_news().count(), 0);
    routes.heard(LEAF, &said, now, SLOT);
    routes.heard(LEAF, &answer(&flow, LinkId::new(LEAF.0, 4)), now, SLOT);
    assert_eq!(routes.take_news().count(), 1, "one answer to a question");
}

#[test]
fn what_is_not_answered_any_more_is_forgotten_and_a_shell_that_forgot_is_told_again() {
    let mut routes = Routes::default();
    let (flow, link) = (spec(1, &[], &[LEAF]), LinkId::new(LEAF.0, 3));
    routes.opened(None, &flow);
    let mut now = Nanos::from_millis(5);
    routes.ask(LEAF, now, SLOT);
    routes.heard(LEAF, &answer(&flow, link), now, SLOT);
    routes.take_news();
    let with = spec(1, &[link], &[LEAF]);
    routes.opened(Some(&flow), &with);
    assert_eq!(routes.take_news().count(), 0);
    routes.opened(Some(&with), &flow);
    assert_eq!(routes.take_news().collect::<Vec<_>>(), [routed(&flow, LEAF, Some(link))]);
    for _ in 0..1000 {
        now = now.plus(SLOT);
        routes.ask(LEAF, now, SLOT);
    }
    assert_eq!(routes.take_news().collect::<Vec<_>>(), [routed(&flow, LEAF, None)], "once");
    let RouteCounts { asked, answered, unanswered } = routes.take_counts();
    assert_eq!((answered, unanswered), (1, asked - 2), "the last may yet be answered");
}

proptest! {
    /// Whatever flows come, go and fork where, each is asked for at exactly the switches where it forks, never more than
    /// so many at once, and nothing is left when all are gone.
    #[test]
    fn questions_follow_the_flows(steps in prop::collection::vec((0_u16..200, 0_usize..5, 0_u64..90), 1..300)) {
        let mut routes = Routes::default();
        let mut flows: BTreeMap<FlowId, FlowSpec> = BTreeMap::new();
        let mut now = Nanos::from_millis(1);
        let mut last: BTreeMap<(HolderId, FlowId), Nanos> = BTreeMap::new();
        for (n, what, wait) in steps {
            now = now.plus(Nanos::from_millis(wait));
            let forks: &[HolderId] = [&[LEAF][..], &[SPINE], &[LEAF, SPINE], &[]][what.min(3)];
            let new = spec(n, &[], forks);
            let before = flows.get(&new.flow).cloned();
            if what == 4 {
                before.iter().for_each(|before| routes.closed(before));
                flows.remove(&new.flow);
                last.retain(|(_, flow), _| *flow != new.flow);
            } else {
                routes.opened(before.as_ref(), &new);
                last.retain(|(holder, flow), _| *flow != new.flow || forks.contains(holder));
                flows.insert(new.flow, new);
            }
            for holder in [LEAF, SPINE] {
                let questions = routes.ask(holder, now, SLOT);
                prop_assert!(questions.len() <= MAX_ROUTES);
                for question in &questions {
                    let flow = &flows[&question.flow];
                    prop_assert!(flow.forks.contains(&holder) && flow.connection == Some(question.connection));
                    let before = last.insert((holder, question.flow), now);
                    prop_assert!(before.is_none_or(|before| now.minus(before) >= SLOT.times(RETRY_SLOTS)));
                }
                if n % 2 == 0 {
                    let said: Vec<Route> =
                        questions.iter().map(|q| Route { flow: q.flow, link: LinkId::new(holder.0, 1) }).collect();
                    routes.heard(holder, &said, now, SLOT);
                }
                let open = flows.values().filter(|flow| flow.forks.contains(&holder)).count();
                let kept = routes.holders.get(&holder).map_or((0, 0), |asked| (asked.flows.len(), asked.queue.len()));
                prop_assert_eq!(kept, (open, open));
            }
        }
        flows.values().for_each(|flow| routes.closed(flow));
        prop_assert!(routes.holders.is_empty());
    }
}
