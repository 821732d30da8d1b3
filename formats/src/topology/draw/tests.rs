//! No two nodes on one spot, every frame around its own, and text that cannot break out.

use super::*;
use crate::topology::r#gen::{
    Variant, Wiring, complete, dgx_a100, dgx_a100_rail, fat_tree, hypercube, mi250, ring, star, torus,
};

fn overlap(a: &Place, b: &Place) -> bool {
    (a.x - b.x).abs() < (a.width + b.width) / 2.0 && (a.y - b.y).abs() < (a.height + b.height) / 2.0
}

#[test]
fn nodes_do_not_overlap_and_stay_inside() {
    let fabrics = [
        dgx_a100(1, Wiring::Plain),
        dgx_a100(4, Wiring::Pcie),
        dgx_a100(8, Wiring::TwoRails),
        dgx_a100_rail(1, Variant::Pcie),
        dgx_a100_rail(2, Variant::All),
        dgx_a100_rail(4, Variant::Nvlink),
        mi250(2, 16),
        mi250(4, 8),
        fat_tree(4, "10Gbit/s"),
        fat_tree(6, "10Gbit/s"),
        ring(64, "1", false),
        torus(&[4, 4, 4], "1"),
        hypercube(6, "1"),
        complete(8, "1"),
        star(&["1"; 40]),
    ];
    for fabric in fabrics {
        let fabric = fabric.expect("valid");
        let layout = layout(&fabric);
        for (i, a) in layout.places.iter().enumerate() {
            assert!(a.x - a.width / 2.0 >= 0.0 && a.x + a.width / 2.0 <= layout.width, "{} {i}", fabric.name());
            assert!(a.y - a.height / 2.0 >= 0.0 && a.y + a.height / 2.0 <= layout.height, "{} {i}", fabric.name());
            for b in &layout.places[i + 1..] {
                assert!(!overlap(a, b), "{}: {a:?} {b:?}", fabric.name());
            }
        }
        for frame in &layout.frames {
            for (node, place) in fabric.nodes().iter().zip(&layout.places) {
                let inside = place.x > frame.x
                    && place.x < frame.x + frame.width
                    && place.y > frame.y
                    && place.y < frame.y + frame.height;
                assert_eq!(inside, node.machine.as_ref() == Some(&frame.label), "{} {}", fabric.name(), node.id);
            }
        }
    }
}

#[test]
fn the_picture_shows_every_node_and_says_the_capacities() {
    let fabric = dgx_a100(2, Wiring::Plain).expect("valid");
    let picture = svg(&fabric);
    assert_eq!(picture.matches("<line ").count(), 32 + 2, "cables and two rows of legend");
    assert_eq!(picture.matches("<title>").count(), 19 + 1);
    assert!(picture.contains(">300 GB/s<") && picture.contains(">25 GB/s<"));
}

#[test]
fn costs_unlimited_links_and_joint_limits_are_seen() {
    let picture = svg(&dgx_a100_rail(2, Variant::All).expect("valid"));
    assert!(picture.contains(">32 GB/s, cost 0<") && picture.contains(">unlimited, cost 0<"));
    assert_eq!(picture.matches(&format!("stroke=\"{UNLIMITED}\"")).count(), 6 + 1, "cables and a row of legend");
    let groups: Vec<String> = (0..8)
        .map(|g| format!(r#"{{"name":"limit {g}","links":[["a","b"],["b","a"]],"capacity":"{}GB/s"}}"#, g + 1))
        .collect();
    let text = format!(
        r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu"}}],
            "links":[{{"from":"a","to":"b","capacity":"5GB/s","duplex":true,"count":2}}],"groups":[{}]}}"#,
        groups.join(",")
    );
    let picture = svg(&Topology::read(text.as_bytes(), "t").expect("valid"));
    assert_eq!(
        picture.matches("<line ").count(),
        1 + 1 + 6 * 2 + 6,
        "a cable, its row, six limits both ways, their rows"
    );
    assert!(picture.contains(">limit 5: 6 GB/s over 4 links<") && picture.contains(">and 2 more groups<"));
}

#[test]
fn hostile_names_stay_text() {
    let text =
        r#"{"sluice_topology":1,"name":"</title><script>","nodes":[{"id":"<a&\u0001\"","kind":"gpu"}],"links":[]}"#;
    let picture = svg(&Topology::read(text.as_bytes(), "t").expect("valid"));
    assert!(!picture.contains("<script") && picture.contains("&lt;a&amp;?&quot;"));
}

#[test]
fn numbers_are_short() {
    let unit = Capacity::parse("1Gbit/s").unwrap().1.unwrap();
    let words = |text: &str| words(unit, &Capacity::parse(text).unwrap().0);
    assert_eq!(words("25GB/s"), "200 Gbit/s");
    assert_eq!(words("12.5Gbit/s"), "12.5 Gbit/s");
    assert_eq!(words("1/3Gbit/s"), "0.33 Gbit/s");
    assert_eq!(short("a-very-long-name", 6), "…-name");
}
