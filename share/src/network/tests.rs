//! Whatever flows come, go and change, the rates are those of the whole network shared out from scratch, to the bit.

use proptest::prelude::*;

use super::{Claim, Claims, Network};
use crate::Share;

const LINKS: usize = 6;
const FLOWS: u32 = 10;

/// What one flow asks for; it is tied to flows with smaller numbers.
#[derive(Clone, Debug, Default)]
struct Wish {
    sends: bool,
    path: Vec<u32>,
    class: u32,
    weight: f64,
    cap: f64,
    ties: Vec<(u32, f64)>,
    followers: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Wishes(Vec<Wish>);

impl Claims for Wishes {
    fn claim(&self, flow: u32) -> Claim {
        let &Wish { class, weight, cap, .. } = &self.0[flow as usize];
        Claim { class, weight, cap }
    }
    fn ties(&self, flow: u32, mut each: impl FnMut(u32, Option<f64>)) {
        for &(to, ratio) in &self.0[flow as usize].ties {
            each(to, self.0[to as usize].sends.then_some(ratio));
        }
    }
    fn followers(&self, flow: u32) -> &[u32] {
        &self.0[flow as usize].followers
    }
    fn rides(&self, flow: u32, to: u32) -> bool {
        self.0[flow as usize].ties.iter().any(|tie| tie.0 == to)
    }
}

impl Wishes {
    /// Nobody sends; who will be tied to whom is settled.
    fn new(ties: &[Vec<(prop::sample::Index, f64)>]) -> Wishes {
        let mut all = vec![Wish::default(); FLOWS as usize];
        for (flow, ties) in ties.iter().enumerate().skip(1) {
            for (to, ratio) in ties {
                let to = to.index(flow);
                if all[flow].ties.iter().all(|tie| tie.0 != to as u32) {
                    all[flow].ties.push((to as u32, *ratio));
                    all[to].followers.push(flow as u32);
                }
            }
        }
        Wishes(all)
    }

    /// One problem of all flows that send.
    fn scratch(&self, capacities: &[f64]) -> Vec<f64> {
        let mut share = Share::default();
        // Links are named by first use, as a part names them: at one level they fill in order of name.
        let mut names = [None; LINKS];
        let sending: Vec<u32> = (0..FLOWS).filter(|&flow| self.0[flow as usize].sends).collect();
        for &flow in &sending {
            for &link in &self.0[flow as usize].path {
                let name = *names[link as usize].get_or_insert_with(|| share.link(capacities[link as usize]));
                share.hop(name);
            }
            let Claim { class, weight, mut cap } = self.claim(flow);
            self.ties(flow, |to, ratio| match ratio {
                Some(ratio) => share.tie(sending.iter().position(|&f| f == to).expect("it sends") as u32, ratio),
                None => cap = 0.0,
            });
            share.flow(class, weight, cap);
        }
        let rates = share.solve();
        let mut all = vec![0.0; FLOWS as usize];
        sending.iter().zip(rates).for_each(|(&flow, &rate)| all[flow as usize] = rate);
        all
    }
}

/// One thing that happens to one flow.
#[derive(Clone, Debug)]
enum Step {
    /// It begins to send, or stops.
    Turn,
    /// It asks for something else.
    Claim(u32, f64, f64),
    /// It goes another way.
    Reroute(Vec<u32>),
}

fn path() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::btree_set(0..LINKS as u32, 1..4).prop_map(|links| links.into_iter().collect())
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step, bool)>> {
    let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => prop::sample::select(vec![0.0, 0.3, 1.0, 2.5])];
    let step = prop_oneof![
        3 => Just(Step::Turn),
        1 => (0u32..3, prop::sample::select(vec![0.5, 1.0, 3.0]), cap).prop_map(|(c, w, cap)| Step::Claim(c, w, cap)),
        1 => path().prop_map(Step::Reroute),
    ];
    prop::collection::vec((0..FLOWS, step, prop::bool::weighted(0.7)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rates_are_those_of_the_whole_network(
        capacities in prop::collection::vec(prop::sample::select(vec![1.0, 2.0, 3.3, 7.0, 10.0]), LINKS),
        paths in prop::collection::vec(path(), FLOWS as usize),
        ties in prop::collection::vec(
            prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![0.5, 1.0, 1.7])), 0..2),
            FLOWS as usize,
        ),
        steps in steps(),
    ) {
        let (mut network, mut wishes) = (Network::new(capacities.iter().copied()), Wishes::new(&ties));
        let mut rates = vec![0.0; FLOWS as usize];
        for (flow, path) in (0..).zip(paths) {
            let known = network.path_of(path.iter().copied());
            network.put(flow, known);
            let wish = &mut wishes.0[flow as usize];
            (wish.path, wish.weight, wish.cap) = (path, 1.0, f64::INFINITY);
        }
        for (flow, step, shares) in steps {
            let wish = &mut wishes.0[flow as usize];
            match step {
                Step::Turn => {
                    wish.sends = !wish.sends;
                    if wish.sends { network.add(flow) } else { network.remove(flow) }
                    wish.followers.iter().for_each(|&next| network.touch(next));
                    rates[flow as usize] = 0.0;
                }
                Step::Claim(class, weight, cap) => {
                    (wish.class, wish.weight, wish.cap) = (class, weight, cap);
                    network.touch(flow);
                }
                Step::Reroute(path) => {
                    let known = network.path_of(path.iter().copied());
                    network.reroute(flow, known);
                    wish.path = path;
                }
            }
            if shares {
                network.share(&wishes);
                // What was not looked at keeps its rate.
                network.shared().for_each(|(flow, rate)| rates[flow as usize] = rate);
                prop_assert_eq!(&rates, &wishes.scratch(&capacities));
            }
        }
    }
}

#[test]
fn a_change_is_followed_no_further_than_it_reaches() {
    let mut network = Network::new([1.0, 1.0]);
    let mut wishes = Wishes::new(&[]);
    for (flow, link) in [(0, 0), (1, 0), (2, 1)] {
        let path = network.path_of([link].into_iter());
        network.put(flow, path);
        wishes.0[flow as usize] = Wish { sends: true, weight: 1.0, cap: f64::INFINITY, ..Wish::default() };
        network.add(flow);
    }
    assert!(network.share(&wishes) && !network.share(&wishes));
    assert_eq!(network.shared().collect::<Vec<_>>(), [(0, 0.5), (1, 0.5), (2, 1.0)]);
    network.remove(1);
    assert!(network.is_dirty() && network.share(&wishes));
    assert_eq!(network.shared().collect::<Vec<_>>(), [(0, 1.0)], "the other link has nothing to do with it");
}
