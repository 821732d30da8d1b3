//! Symmetries found, beside all permutations tried and beside what is known of fabrics.

use super::automorphism::Automorphism;
use super::orbits::{Orbits, pairs};
use super::samples::{GPU, MEMORY, Parts, Rails, SWITCH, dgx, gpus, marks, random, ring, star, two_box};
use super::{Symmetries, find, find_within};
use crate::fluid::network::{Edge, Group, Network};
use crate::run::Run;
use num_bigint::BigUint;

fn symmetries(network: &Network, marks: &[u32], base: &[u32]) -> Symmetries {
    find(network, marks, base, &Run::quiet(1)).expect("nobody stops it")
}

/// All permutations that pass.
fn brute(network: &Network, marks: &[u32]) -> Vec<Vec<u32>> {
    fn extend(network: &Network, marks: &[u32], images: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if images.len() == network.nodes() {
            if Automorphism::verify(network, marks, images).is_ok() {
                all.push(images.clone());
            }
            return;
        }
        for image in 0..network.nodes() as u32 {
            let node = images.len();
            let other = image as usize;
            if !images.contains(&image) && network.can[node] == network.can[other] && marks[node] == marks[other] {
                images.push(image);
                extend(network, marks, images, all);
                images.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(network, marks, &mut Vec::new(), &mut all);
    all
}

fn factorial(number: u64) -> BigUint {
    (1..=number).map(BigUint::from).product()
}

#[test]
fn random_fabrics_have_the_symmetries_that_trying_all_permutations_finds() {
    let mut symmetric = 0;
    for seed in 0..300 {
        let network = random(seed);
        let mut marks = vec![0; network.nodes()];
        marks[0] = u32::from(seed % 3 == 0);
        let all = brute(&network, &marks);
        symmetric += u32::from(all.len() > 1);
        let base = if seed % 2 == 0 { vec![1, 2] } else { Vec::new() };
        let found = symmetries(&network, &marks, &base);
        assert!(found.complete, "seed {seed}");
        assert_eq!(found.order(), BigUint::from(all.len()), "seed {seed}: {network:?}");
        // Orbits of the group and of the stabiliser of the base.
        for depth in 0..=base.len() {
            let fixing =
                || all.iter().filter(|images| base[..depth].iter().all(|node| images[*node as usize] == *node));
            let orbits = Orbits::of_nodes(&network, found.stabiliser(depth));
            for node in 0..network.nodes() as u32 {
                let mut orbit: Vec<u32> = fixing().map(|images| images[node as usize]).collect();
                orbit.sort_unstable();
                orbit.dedup();
                let class = orbits.class(node);
                assert_eq!(orbits.members(class), orbit, "seed {seed}, node {node}, depth {depth}");
                assert_eq!(orbits.representatives[class as usize], orbit[0]);
                assert_eq!(orbits.sizes[class as usize] as usize, orbit.len());
            }
        }
    }
    assert!(symmetric > 60, "{symmetric} have symmetry: too few to mean anything");
}

#[test]
fn orbits_of_links_and_limits_are_those_of_all_automorphisms() {
    for seed in 0..60 {
        let network = random(seed);
        let marks = vec![0; network.nodes()];
        let all: Vec<Automorphism> = brute(&network, &marks)
            .iter()
            .map(|images| Automorphism::verify(&network, &marks, images).expect("verified before"))
            .collect();
        let found = symmetries(&network, &marks, &[]);
        assert_eq!(Orbits::of_edges(&network, &found.generators).sizes, Orbits::of_edges(&network, &all).sizes);
        assert_eq!(Orbits::of_groups(&network, &found.generators), Orbits::of_groups(&network, &all), "seed {seed}");
    }
}

#[test]
fn well_known_fabrics_have_their_orders() {
    let order = |network: &Network| symmetries(network, &marks(network), &[]).order();
    assert_eq!(order(&ring(7)), BigUint::from(14_u32));
    assert_eq!(order(&star(9)), factorial(9));
    assert_eq!(order(&two_box()), BigUint::from(8_u32));
    let cube = gpus(16, (0..16).flat_map(|node| [1, 2, 4, 8].map(|bit| (node, node ^ bit))).filter(|(a, b)| a < b));
    assert_eq!(order(&cube), BigUint::from(384_u32));
    let grid = |node: u32, down: u32, right: u32| (node, (node / 5 + down) % 5 * 5 + (node % 5 + right) % 5);
    let torus = gpus(25, (0..25).flat_map(|node| [grid(node, 1, 0), grid(node, 0, 1)]));
    assert_eq!(order(&torus), BigUint::from(200_u32));
    let line = gpus(5, (0..4).map(|node| (node, node + 1)));
    assert_eq!(order(&line), BigUint::from(2_u32));
    // Petersen's graph: its nodes all look the same to colour refinement.
    let petersen =
        gpus(10, (0..5).flat_map(|node| [(node, (node + 1) % 5), (node, node + 5), (node + 5, (node + 2) % 5 + 5)]));
    assert_eq!(order(&petersen), BigUint::from(120_u32));
}

#[test]
fn multi_rail_clusters_have_their_orders() {
    for machines in [1, 2, 3, 4] {
        for rails in [Rails::Nvlink, Rails::Pcie, Rails::All] {
            let (network, _) = dgx(machines, rails);
            let found = symmetries(&network, &marks(&network), &[0]);
            // At a switch every rail is like every other; a PCIe switch has two GPUs, and two rails that nothing tells
            // apart; the four stand in two pairs.
            let wanted = match (rails, machines) {
                (Rails::Nvlink, _) => factorial(8) * factorial(machines.into()),
                (_, 1) => BigUint::from(8 * 16_u32),
                _ => (BigUint::from(8 * 16_u32) << (4 * machines)) * factorial(machines.into()),
            };
            assert_eq!(found.order(), wanted, "{machines} machines, {rails:?}");
            let orbits = Orbits::of_nodes(&network, &found.generators);
            assert_eq!(orbits.members(orbits.class(0)), (0..8 * machines).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_largest_cluster_is_searched_to_the_end() {
    let (network, _) = dgx(64, Rails::Nvlink);
    let found = symmetries(&network, &marks(&network), &[0]);
    assert!(found.complete);
    assert_eq!(found.order(), factorial(8) * factorial(64));
    assert_eq!(found.generators.len(), 7 + 63);
}

#[test]
fn destinations_of_an_origin_stand_in_orbits_with_their_own_symmetries() {
    let (network, _) = dgx(3, Rails::Pcie);
    let marks = marks(&network);
    let all: Vec<u32> = (1..24).collect();
    let around = pairs(&network, &marks, 0, &all, &Run::quiet(1)).expect("nobody stops it");
    assert!(around.complete);
    // The other GPU of its switch, of its CPU, of its machine; the same three of other machines.
    let orbits: Vec<_> = around.pairs.iter().map(|pair| pair.orbit.clone()).collect();
    let others = |gpus: &[u32]| [8, 16].iter().flat_map(|first| gpus.iter().map(move |gpu| first + gpu)).collect();
    let wanted = [vec![1], vec![2, 3], vec![4, 5, 6, 7], others(&[0, 1]), others(&[2, 3]), others(&[4, 5, 6, 7])];
    assert_eq!(orbits, wanted);
    for pair in &around.pairs {
        assert_eq!(pair.end, pair.orbit[0]);
        let fixing = symmetries(&network, &marks, &[0, pair.end]);
        for generator in &pair.stabiliser {
            assert_eq!((generator.nodes[0], generator.nodes[pair.end as usize]), (0, pair.end));
            assert_eq!(Automorphism::verify(&network, &marks, &generator.nodes).as_ref(), Ok(generator));
        }
        let [mine, others] =
            [&pair.stabiliser[..], fixing.stabiliser(2)].map(|these| Orbits::of_edges(&network, these));
        assert_eq!(mine, others);
    }
    // Only those asked for are told.
    let some = pairs(&network, &marks, 0, &[3, 9], &Run::quiet(1)).expect("nobody stops it");
    assert_eq!(some.pairs.iter().map(|pair| pair.orbit.clone()).collect::<Vec<_>>(), [vec![3], vec![9]]);
}

#[test]
fn a_spent_budget_gives_fewer_symmetries_that_are_right() {
    let network = gpus(9, (0..9).flat_map(|one| (0..one).map(move |other| (one, other))));
    let marks = marks(&network);
    let whole = symmetries(&network, &marks, &[]);
    assert_eq!((whole.complete, whole.order()), (true, factorial(9)));
    let petersen =
        gpus(10, (0..5).flat_map(|node| [(node, (node + 1) % 5), (node, node + 5), (node + 5, (node + 2) % 5 + 5)]));
    let marks = vec![0; 10];
    let mut smaller = 0;
    for limit in 0..20 {
        let part = find_within(&petersen, &marks, &[], limit, &Run::quiet(1)).expect("nobody stops it");
        assert!(part.order() <= BigUint::from(120_u32));
        assert!(!part.complete || part.order() == BigUint::from(120_u32));
        smaller += u32::from(!part.complete);
        for generator in &part.generators {
            assert_eq!(Automorphism::verify(&petersen, &marks, &generator.nodes).as_ref(), Ok(generator));
        }
    }
    assert!(smaller > 0, "no limit was small enough to end a search");
}

#[test]
fn work_that_is_called_off_has_no_result() {
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let run = Run { cancel: &cancel, ..Run::quiet(1) };
    assert_eq!(find(&ring(5), &[0; 5], &[], &run), Err(crate::run::Stopped::Cancelled));
}

/// A fabric in which everything can be damaged: two GPUs and two switches, turned by the permutation 1, 0, 3, 2.
fn even() -> Parts {
    let mut parts = Parts { can: vec![GPU, GPU, SWITCH, SWITCH], ..Parts::default() };
    for (gpu, switch) in [(0, 2), (1, 3)] {
        parts.link(gpu, switch, Some(4.0), 1.0);
        parts.link(gpu, switch, None, 1.0);
        parts.link(switch, gpu, Some(2.0), 0.5);
    }
    parts.both(2, 3, None, 0.0);
    parts.groups.push(Group { edges: vec![0, 1], rate: 5.0 });
    parts.groups.push(Group { edges: vec![3, 4], rate: 5.0 });
    parts
}

#[test]
fn every_damage_is_refused_by_its_name() {
    const TURN: [u32; 4] = [1, 0, 3, 2];
    let whole = Automorphism::verify(&even().network(), &[0; 4], &TURN).expect("nothing is damaged");
    assert_eq!(whole.edges, [3, 4, 5, 0, 1, 2, 7, 6]);
    assert_eq!(whole.groups, [2, 3, 0, 1, 5, 4]);
    assert_eq!(whole.then(&whole), Automorphism::identity(&even().network()));
    let refused = |damage: &dyn Fn(&mut Parts), marks: &[u32], images: &[u32]| {
        let mut parts = even();
        damage(&mut parts);
        Automorphism::verify(&parts.network(), marks, images).expect_err("it is damaged").to_string()
    };
    let none = |_: &mut Parts| {};
    let says = |text: &str| format!("not an automorphism: {text}");
    assert_eq!(refused(&none, &[0; 4], &[1, 0, 3]), says("3 images and 4 marks for 4 nodes"));
    assert_eq!(refused(&none, &[0; 3], &TURN), says("4 images and 3 marks for 4 nodes"));
    assert_eq!(refused(&none, &[0; 4], &[1, 4, 3, 2]), says("node 1 goes to 4; there are 4 nodes"));
    assert_eq!(refused(&none, &[0; 4], &[1, 1, 3, 2]), says("two nodes go to node 1"));
    assert_eq!(refused(&none, &[1, 2, 0, 0], &TURN), says("node 0 goes to node 1, which plays another part"));
    let able: [fn(&mut Parts); 3] =
        [|parts| parts.can[1].store = false, |parts| parts.can[1].copy = false, |parts| parts.can[1] = MEMORY];
    for damage in able {
        assert_eq!(refused(&damage, &[0; 4], &TURN), says("node 0 goes to node 1, which has other abilities"));
    }
    let count = "are not as many as those that go there";
    assert!(refused(&|parts| parts.edges[5].to = 2, &[0; 4], &TURN).ends_with(count));
    let more = |parts: &mut Parts| parts.edges.push(Edge { from: 0, to: 1, cost: 0.0 });
    assert!(refused(&more, &[0; 4], &TURN).ends_with(count));
    assert_eq!(
        refused(&|parts| parts.edges[5].cost = 0.25, &[0; 4], &TURN),
        says("link 5 goes to a link from node 2 to node 0; none has its cost")
    );
    let limit = |index: usize, rate: f64| move |parts: &mut Parts| parts.groups[index].rate = rate;
    assert_eq!(refused(&limit(1, 3.0), &[0; 4], &TURN), says("link 5 goes to link 2, which has another limit"));
    let shares =
        |damage: &dyn Fn(&mut Parts)| refused(damage, &[0; 4], &TURN).contains("shares its limits with others");
    assert!(shares(&limit(5, 3.0)));
    assert!(shares(&|parts| parts.groups[5].edges = vec![3, 5]));
    assert!(shares(&|parts| _ = parts.groups.pop()));
}

#[test]
fn links_that_share_limits_crosswise_are_told_apart() {
    // Four links from one switch to another, which two limits of each of two kinds pair up: in a square, and twice the same
    // pairs. Both look the same link by link.
    let fabric = |second: [[u32; 2]; 2]| {
        let mut parts = Parts { can: vec![SWITCH; 8], ..Parts::default() };
        (0..4).for_each(|index| parts.link(index, 4 + index, None, 0.0));
        for edges in [[0, 1], [2, 3]].into_iter().chain(second) {
            parts.groups.push(Group { edges: edges.to_vec(), rate: 1.0 });
        }
        parts.network()
    };
    let order = |network: &Network| symmetries(network, &[0; 8], &[]).order();
    assert_eq!(order(&fabric([[1, 2], [0, 3]])), BigUint::from(8_u32));
    assert_eq!(order(&fabric([[0, 1], [2, 3]])), BigUint::from(8_u32));
    let (network, swap) = (fabric([[1, 2], [0, 3]]), [0, 2, 1, 3, 4, 6, 5, 7]);
    let found = Automorphism::verify(&network, &[0; 8], &swap).expect_err("0 shares with 1 and 3, but not with 2");
    assert!(found.to_string().contains("shares its limits with others"), "{found}");
}
