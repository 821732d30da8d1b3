//! What is asked when, over networks that answer truly, late, not at all, or otherwise than the topology says.

use proptest::prelude::*;

use super::*;
use crate::topology::path::{Rung, Step};

fn connection(port: u16) -> Connection {
    let end = |last, port| std::net::SocketAddr::from(([10, 0, 0, last], port));
    Connection { source: end(1, port), destination: end(2, 80), protocol: 6 }
}

/// Rungs of so many switches, every one linked to every one of the next.
fn ladder(widths: &[usize]) -> Rc<Ladder> {
    let name = |rung: usize, at: usize| HolderId::of(&format!("{rung}.{at}"));
    let rung = |(rung, width): (usize, &usize)| {
        let mut switches: Vec<HolderId> = (0..*width).map(|at| name(rung, at)).collect();
        switches.sort_unstable();
        Rung { switches, answers: true }
    };
    let rungs: Vec<Rung> = widths.iter().enumerate().map(rung).collect();
    let steps = rungs.windows(2).map(|pair| {
        let link = |from: HolderId| {
            let to = pair[1].switches.iter().enumerate();
            to.map(move |(port, to)| Step { from, to: *to, link: LinkId::new(from.0, port as u32) })
        };
        pair[0].switches.iter().copied().flat_map(link).collect()
    });
    Rc::new(Ladder { steps: steps.collect(), rungs: rungs.clone() })
}

fn subject(n: u16, ladder: &Rc<Ladder>) -> Subject {
    let sequence = Some(Sequence { unacknowledged: 1000 + u32::from(n), expected: 5 });
    Subject { flow: FlowId(n.into()), connection: connection(n), sequence, ladder: ladder.clone() }
}

/// A network in which the n-th flow passes these switches.
struct Net {
    prober: Prober,
    ladder: Rc<Ladder>,
    ways: Vec<Vec<usize>>,
    now: Nanos,
    known: BTreeMap<(FlowId, HolderId), LinkId>,
    asked: Vec<Probe>,
}

impl Net {
    fn new(widths: &[usize], ways: Vec<Vec<usize>>) -> Net {
        let prober = Prober::new(Nanos::from_millis(30_000));
        let (now, known) = (Nanos::from_millis(100_000), BTreeMap::new());
        Net { prober, ladder: ladder(widths), ways, now, known, asked: Vec::new() }
    }

    fn passes(&self, flow: FlowId, rung: usize) -> HolderId {
        let switches = &self.ladder.rungs[rung].switches;
        switches[self.ways[flow.0 as usize][rung] % switches.len()]
    }

    /// A slot; `answers` says whether a switch does, and how far in front of its place.
    fn slot(&mut self, answers: impl Fn(&Probe) -> Option<usize>) {
        self.now = self.now.plus(Nanos::from_millis(60));
        let all: Vec<Subject> = (0..self.ways.len()).map(|n| subject(n as u16, &self.ladder)).collect();
        self.prober.follow(self.now, all.into_iter());
        if let Some(probe) = self.prober.next(self.now) {
            self.asked.push(probe);
            if let Some(rung) = answers(&probe) {
                let exceeded = segment::Exceeded {
                    from: [10, 9, 0, 1].into(),
                    connection: probe.connection,
                    sequence: segment::sequence(&probe),
                    id: probe.id,
                };
                let switch = self.passes(probe.flow, rung);
                self.prober.heard(self.now, switch, &exceeded);
                self.prober.heard(self.now, switch, &exceeded);
            }
        }
        for action in self.prober.take_news() {
            let Action::Routed { flow, holder, link } = action else { panic!("{action:?}") };
            match link {
                Some(link) => _ = self.known.insert((flow, holder), link),
                None => assert!(self.known.remove(&(flow, holder)).is_some(), "taken back what was not said"),
            }
        }
    }

    /// So many seconds in which everybody answers.
    fn run(&mut self, seconds: u64) {
        (0..seconds * 1000 / 60).for_each(|_| self.slot(|probe| Some(usize::from(probe.hop_limit) - 1)));
    }

    /// What is known of a flow is what it does; how many of its links are known.
    fn check(&self, n: usize) -> usize {
        let flow = FlowId(n as u64);
        let mine = self.known.iter().filter(|((of, _), _)| *of == flow);
        for ((_, holder), link) in mine.clone() {
            let true_step = (0..self.ladder.steps.len()).find(|at| self.passes(flow, *at) == *holder);
            let at = true_step.unwrap_or_else(|| panic!("{flow} does not pass {holder}"));
            let next = self.passes(flow, at + 1);
            let step = self.ladder.steps[at].iter().find(|step| step.link == *link).expect("a link");
            assert_eq!((step.from, step.to), (*holder, next));
        }
        mine.count()
    }
}

#[test]
fn a_flow_between_leaves_is_found_by_its_spine_and_looked_for_again() {
    let mut net = Net::new(&[1, 4, 1], vec![vec![0, 2, 0]]);
    net.run(10);
    assert!(
        !net.prober.is_ready(net.now) && net.prober.is_ready(net.now.plus(PAUSE)),
        "flows are looked at once a second"
    );
    assert_eq!(net.check(0), 1);
    let limits: Vec<u8> = net.asked.iter().map(|probe| probe.hop_limit).collect();
    assert_eq!(limits, [1, 2], "the leaf first, to see that it is where it should be; never the other leaf");
    net.ways[0][1] = 3;
    net.run(35);
    assert_eq!(net.check(0), 1, "the redrawn path");
    assert_eq!(net.prober.take_counts(), Counts { asked: 3, answered: 3, unanswered: 0 });
}

#[test]
fn one_probe_a_second_is_shared_by_new_flows_and_known_ones() {
    let mut net = Net::new(&[1, 4, 1], (0..40).map(|n| vec![0, n, 0]).collect());
    net.run(44);
    assert!((40..=44).contains(&net.asked.len()), "{}", net.asked.len());
    net.run(44);
    assert!((0..40).all(|n| net.check(n) == 1), "{:?}", net.known.len());
    let first = net.asked.iter().filter(|probe| probe.flow == FlowId(0)).count();
    assert!(first >= 2, "known ones are looked at between new ones");
}

#[test]
fn who_does_not_answer_is_asked_ever_more_rarely_and_what_was_known_is_forgotten() {
    let mut net = Net::new(&[1, 2, 1], vec![vec![0, 1, 0]]);
    net.run(10);
    assert_eq!(net.check(0), 1);
    for _ in 0..10_000 {
        net.slot(|_| None);
    }
    assert!(net.known.is_empty());
    assert!(net.asked.len() < 20, "{} in ten minutes", net.asked.len());
    let counts = net.prober.take_counts();
    assert_eq!((counts.answered, counts.asked), (2, net.asked.len() as u64));
    assert!(counts.unanswered + counts.answered >= counts.asked - 1);
}

#[test]
fn one_distance_without_answers_does_not_hide_the_others() {
    let mut net = Net::new(&[1, 4, 3, 1], vec![vec![0, 2, 1, 0]]);
    for _ in 0..20_000 {
        net.slot(|probe| Some(usize::from(probe.hop_limit) - 1).filter(|rung| *rung != 2));
    }
    assert_eq!(net.check(0), 1, "the first link is known, the second is not");
    let known = net.known.clone();
    for _ in 0..5_000 {
        net.slot(|probe| Some(usize::from(probe.hop_limit) - 1).filter(|rung| *rung != 2));
        assert_eq!(net.known, known, "all the time");
    }
}

#[test]
fn nobody_is_asked_beyond_what_is_proved() {
    // The leaf is a bridge in truth: whatever is sent for it is answered by the spine behind it.
    let mut net = Net::new(&[1, 2, 1], vec![vec![0, 1, 0]]);
    for _ in 0..3000 {
        net.slot(|_| Some(1));
    }
    assert!(net.asked.iter().all(|probe| probe.hop_limit == 1), "two might reach the other end");
    assert_eq!(net.check(0), 1, "the spine is known all the same");
}

#[test]
fn an_answer_has_to_fit_what_was_asked() {
    let mut net = Net::new(&[1, 2, 1], vec![vec![0, 1, 0]]);
    (0..40).for_each(|_| net.slot(|_| None));
    let probe = *net.asked.last().expect("asked");
    let right = segment::Exceeded {
        from: [10, 9, 0, 1].into(),
        connection: probe.connection,
        sequence: segment::sequence(&probe),
        id: probe.id,
    };
    let leaf = net.ladder.rungs[0].switches[0];
    let wrong = [
        segment::Exceeded { sequence: right.sequence.wrapping_add(1), ..right },
        segment::Exceeded { id: right.id.wrapping_add(1), ..right },
        segment::Exceeded { connection: connection(9), ..right },
    ];
    wrong.iter().for_each(|wrong| net.prober.heard(net.now, leaf, wrong));
    net.prober.heard(net.now, HolderId::of("elsewhere"), &right);
    assert_eq!(net.prober.take_counts().answered, 0);
    net.prober.heard(net.now, leaf, &right);
    assert_eq!(net.prober.take_counts().answered, 1);
}

#[test]
fn what_is_known_of_a_flow_that_nobody_measures_stands_and_it_is_not_asked_for() {
    let mut net = Net::new(&[1, 2, 1], vec![vec![0, 1, 0]]);
    net.run(10);
    let (asked, unmeasured) = (net.asked.len(), Subject { sequence: None, ..subject(0, &net.ladder) });
    for _ in 0..2000 {
        net.now = net.now.plus(Nanos::from_millis(60));
        net.prober.follow(net.now, std::iter::once(unmeasured.clone()));
        assert_eq!((net.prober.next(net.now), net.prober.take_news()), (None, vec![]));
    }
    net.run(10);
    assert_eq!((net.check(0), net.asked.len()), (1, asked + 1), "it was due long ago");
}

#[test]
fn parallel_links_are_not_told_apart_and_a_flow_that_goes_is_forgotten() {
    let mut net = Net::new(&[1, 2, 1], vec![vec![0, 1, 0]]);
    let mut twice = (*net.ladder).clone();
    let twins: Vec<Step> =
        twice.steps[0].iter().map(|s| Step { link: LinkId::new(s.from.0, s.link.port() + 9), ..*s }).collect();
    twice.steps[0].extend(twins);
    let single = std::mem::replace(&mut net.ladder, Rc::new(twice));
    net.run(10);
    assert!(net.asked.len() >= 2 && net.known.is_empty());
    net.ladder = single;
    net.run(10);
    assert_eq!(net.check(0), 1, "another topology begins anew");
    net.ways.clear();
    net.run(1);
    assert!(net.known.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the network looks like and however much is lost: never two probes within a second, never one that could come
    /// to the other end; and once nothing is lost and no path changes any more, what is known is true and complete.
    #[test]
    fn probes_stay_short_and_rare_and_find_the_path(
        widths in prop::collection::vec(1_usize..4, 1..5),
        ways in prop::collection::vec(prop::collection::vec(0_usize..6, 5), 1..5),
        changes in prop::collection::vec((0_usize..5, 0_usize..5, 0_usize..6), 0..6),
        lost in any::<u64>(),
    ) {
        let mut net = Net::new(&widths, ways);
        let mut random = crate::testing::random(lost | 1);
        for (flow, rung, to) in changes {
            let flow = flow % net.ways.len();
            net.ways[flow][rung] = to;
            for _ in 0..500 {
                let is_lost = random().is_multiple_of(3);
                net.slot(|probe| Some(usize::from(probe.hop_limit) - 1).filter(|_| !is_lost));
            }
        }
        net.run(900);
        for n in 0..net.ways.len() {
            // A link is to be known of each switch from which several lead on.
            let forks = widths.windows(2).filter(|pair| pair[1] > 1).count();
            prop_assert_eq!(net.check(n), forks, "{:?}", &net.known);
        }
        prop_assert!(net.asked.iter().all(|probe| usize::from(probe.hop_limit) <= widths.len()), "{:?}", widths);
        prop_assert!(net.asked.len() as u64 <= net.now.minus(Nanos::from_millis(100_000)).0 / 1_000_000_000 + 1);
    }
}
