//! Datagrams along the paths of flows, where receivers keep their own links.

use super::*;

/// A host that speaks along paths, where receivers keep their own links.
fn along_paths(name: &'static str, address: u8) -> Side {
    let mut side = Side::new(name, address, one_hop, NOW);
    let ground =
        Ground { ingress: BTreeMap::new(), along_paths: true, ends_apart: true, ..(*side.book.ground).clone() };
    side.book = Book::new(Arc::new(ground), 2, NOW);
    side
}

#[test]
fn a_path_is_as_full_as_its_fullest_link_and_one_that_changes_is_forgotten_alone() {
    let mut model = model(|_| vec![UP], NOW);
    model.flows.insert((UP, id("b", 9)), (NOW, [Rate::mbps(600); LANES]));
    let mut a = along_paths("a", 20);
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
fn a_path_without_a_link_between_switches_has_nothing_against_anybody() {
    let mut model = model(|_| vec![], NOW);
    let mut a = along_paths("a", 20);
    let said = a.announce(NOW, &[(0, 100)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!((others(&heard), heard.refused), (BTreeMap::from([(down(2), 0)]), None));
}
