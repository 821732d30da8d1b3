//! Datagrams along the paths of flows: what they say of links where nobody else does, and of ways where hosts keep links.

use super::*;

/// A host that speaks along paths, where hosts keep all links or none.
fn along_paths(name: &'static str, address: u8, ways_only: bool) -> Side {
    let mut side = Side::new(name, address, one_hop, NOW);
    let ground = Ground { ingress: BTreeMap::new(), along_paths: true, ways_only, ..(*side.book.ground).clone() };
    side.book = Book::new(Arc::new(ground), 2, NOW);
    side
}

#[test]
fn a_path_is_as_full_as_its_fullest_link_and_one_that_changes_is_forgotten_alone() {
    let mut model = model(|_| vec![UP], NOW);
    model.flows.insert((UP, id("b", 9)), (NOW, [Rate::mbps(600); LANES]));
    let mut a = along_paths("a", 20, false);
    let said = a.announce(NOW, &[(0, 100), (1, 50)]);
    assert_eq!(said.len(), 2, "what leads to this host others read");
    let heard = a.exchange(&mut model, &said).expect("feedback");
    // Both flows are on the same link inside, which neither knows of the other.
    assert_eq!(others(&heard), BTreeMap::from([(down(2), 600), (down(3), 700)]));
    assert_eq!((heard.refused, a.book.take_tally().map(|tally| tally.moved)), (None, Some(0)));
    let boot = heard.boot;

    // Flow 0 goes another way from the next slot on, where nobody is.
    model.slot = NOW.offset(1);
    model.path = |tuple| if tuple.destination.octets()[3] == 2 { vec![LinkId(77)] } else { vec![UP] };
    model.flows.insert((UP, id("b", 9)), (NOW.offset(1), [Rate::mbps(500); LANES]));
    let said = a.announce(NOW.offset(1), &[(0, 100), (1, 50)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!(others(&heard)[&down(2)], 0);
    assert!(others(&heard)[&down(3)] >= 500);
    assert_eq!(a.book.take_tally().map(|tally| tally.moved), Some(1));
    assert_eq!(heard.boot, boot, "nothing began anew but that path");
}

#[test]
fn where_hosts_keep_links_an_echo_tells_the_way_once_and_nothing_of_loads() {
    let mut model = model(|_| vec![UP], NOW);
    model.flows.insert((UP, id("b", 9)), (NOW, [Rate::mbps(600); LANES]));
    let mut a = along_paths("a", 20, true);
    let said = a.announce(NOW, &[(0, 100), (1, 50)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!((others(&heard), heard.refused), ([2, 3, 20].map(|to| (down(to), 0)).into(), None));
    let passed = a.book.take_passed();
    assert_eq!(passed.iter().map(|passed| passed.flow).collect::<Vec<_>>(), [id("a", 0), id("a", 1)]);
    assert_eq!(passed[0].signature, passed[1].signature, "both go by one link");

    model.slot = NOW.offset(1);
    let said = a.announce(NOW.offset(1), &[(0, 100), (1, 50)]);
    a.exchange(&mut model, &said).expect("feedback");
    assert_eq!(a.book.take_passed(), [], "told before");

    model.slot = NOW.offset(2);
    model.path = |tuple| if tuple.destination.octets()[3] == 2 { vec![LinkId(77)] } else { vec![UP] };
    let said = a.announce(NOW.offset(2), &[(0, 100), (1, 50)]);
    a.exchange(&mut model, &said).expect("feedback");
    let moved = a.book.take_passed();
    assert_eq!(moved.iter().map(|passed| passed.flow).collect::<Vec<_>>(), [id("a", 0)]);
    assert_ne!(moved[0].signature, passed[0].signature);
}

#[test]
fn a_path_without_a_link_between_switches_has_nothing_against_anybody() {
    let mut model = model(|_| vec![], NOW);
    let mut a = along_paths("a", 20, true);
    let said = a.announce(NOW, &[(0, 100)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!((others(&heard), heard.refused), ([2, 20].map(|to| (down(to), 0)).into(), None));
}

#[test]
fn without_a_slot_from_its_agent_a_switch_is_left_only_where_it_would_have_kept_tables() {
    for ways_only in [false, true] {
        let mut model = model(|_| vec![UP], NOW);
        let mut a = along_paths("a", 20, ways_only);
        let said = a.announce(NOW, &[(0, 100)]);
        // Its agent died, and the slot that it knows is long over.
        model.slot = NOW.offset(-3);
        for datagram in &said {
            let echo = model.answer(datagram).expect("an echo");
            assert!(a.book.echo(NOW, &echo));
        }
        let (_, heard) = a.book.feedback(NOW).and_then(|mut heard| heard.pop()).expect("feedback");
        let refused = (!ways_only).then_some(sluice_schedule::Refusal::SlotGuard);
        assert_eq!((heard.refused, heard.links.is_empty()), (refused, !ways_only));
        assert_eq!(a.book.take_tally().map(|tally| tally.guarded), Some(1));
        assert_eq!(a.book.take_passed().len(), 1, "the way is told all the same");
    }
}
