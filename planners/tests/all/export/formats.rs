//! The forms for other programs and for people.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_formats::problem::{E_RANGE, UNKNOWN_EDGE};
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, star};
use sluice_plan::export::{Colour, Format, Options, export};
use sluice_plan::plan::{Collective, Content, Plan};

use crate::export::scene::{OF_TREES, edited, exported, fabrics, planned, text};

fn forest_json(plan: &Plan) -> Vec<(&'static str, Value)> {
    let files = exported(plan, Format::ForestJson, &Options::default()).files;
    files.into_iter().map(|file| (file.part, serde_json::from_str(&file.text).expect("JSON"))).collect()
}

#[test]
fn forest_json_is_the_forest_as_it_stands() {
    let able = edited(&star(&["2"; 4]).expect("valid"), |file| file["nodes"][4]["can"] = json!({"copy": true}));
    for topology in fabrics().into_iter().chain([able]) {
        for collective in OF_TREES {
            let plan = planned(&topology, collective, None);
            let whole: Value = serde_json::from_str(&plan.to_text()).expect("JSON");
            let files = forest_json(&plan);
            let parts: Vec<&str> = files.iter().map(|(part, _)| *part).collect();
            let words: Vec<&str> = files.iter().filter_map(|(_, file)| file["collective"].as_str()).collect();
            if collective == Collective::AllReduce {
                assert_eq!((parts, words), (vec!["in", "out"], vec!["reduce_scatter", "allgather"]));
            } else {
                assert_eq!((parts, words), (vec![""], vec![collective.word()]));
            }
            for (i, (_, file)) in files.iter().enumerate() {
                let mut forest = whole["content"]["forests"][i].clone();
                let entries = forest.as_object_mut().expect("an object");
                entries.remove("direction");
                entries.insert("collective".into(), file["collective"].clone());
                assert_eq!(*file, forest);
            }
        }
    }
}

/// Attributes of the elements of a name, in order.
fn elements(xml: &str, name: &str) -> Vec<BTreeMap<String, String>> {
    let lines = xml.lines().filter_map(|line| line.trim().strip_prefix(&format!("<{name} ")));
    let attributes = |line: &str| {
        let parts: Vec<&str> = line.split('"').collect();
        parts
            .chunks_exact(2)
            .map(|pair| (pair[0].trim().trim_end_matches('=').to_owned(), pair[1].to_owned()))
            .collect()
    };
    lines.map(attributes).collect()
}

#[test]
fn tree_xml_lists_every_tree_from_its_root() {
    for topology in fabrics() {
        for collective in OF_TREES {
            let plan = planned(&topology, collective, None);
            let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
            let xml = text(&plan, Format::TreeXml, &Options::default());
            let nodes = elements(&xml, "node");
            assert_eq!(nodes.len(), topology.nodes().len());
            let ranked = nodes.iter().filter(|node| node["rank"] != "-1").count();
            assert_eq!(ranked, topology.compute().len());
            let id = |index: &str| nodes[index.parse::<usize>().expect("an index")]["id"].clone();
            // Trees in file order; within one, each edge once, and no child before its parent.
            let all =
                trees.forests.iter().flat_map(|forest| forest.trees.iter().map(move |tree| (forest.direction, tree)));
            let blocks: Vec<&str> = xml.split("<tree ").skip(1).collect();
            assert_eq!(blocks.len(), all.clone().count());
            let mut weights = 0;
            for ((direction, tree), block) in all.zip(blocks) {
                let head = &elements(&format!("<tree {block}"), "tree")[0];
                assert_eq!(id(&head["root"]), plan.id(tree.root));
                weights += head["nchunks"].parse::<u64>().expect("a number");
                let mut depth = BTreeMap::from([(plan.id(tree.root).to_owned(), 0)]);
                let mut written: Vec<Vec<String>> = Vec::new();
                let mut last = 0;
                for send in elements(block, "send") {
                    let path: Vec<String> = send["path"].split(' ').map(id).collect();
                    let (src, dst) = (id(&send["src"]), id(&send["dst"]));
                    assert_eq!((&path[0], &path[path.len() - 1]), (&src, &dst));
                    let inward = direction == sluice_plan::plan::Direction::In;
                    let (parent, child) = if inward { (dst, src) } else { (src, dst) };
                    let here = depth[&parent] + 1;
                    assert!(here >= last, "breadth-first");
                    last = here;
                    assert_eq!(depth.insert(child, here), None);
                    written.push(path);
                }
                assert_eq!(head["height"], last.to_string());
                let mut paths: Vec<Vec<String>> =
                    tree.edges.iter().map(|edge| edge.path().map(|node| plan.id(node).to_owned()).collect()).collect();
                written.sort();
                paths.sort();
                assert_eq!(written, paths);
            }
            let ways = trees.forests.len() as u64;
            assert_eq!(elements(&xml, "trees")[0]["nchunks"], (weights / ways).to_string());
        }
    }
}

#[test]
fn pictures_show_every_node_and_every_link_in_use() {
    let topology = dgx_a100(2, Wiring::Plain).expect("valid");
    let plan = planned(&topology, Collective::AllGather, Some(1));
    let by = |colour, tree| Options { colour: Some(colour), tree, ..Options::default() };
    let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
    let mut links: Vec<(&str, &str)> = Vec::new();
    for edge in trees.forests[0].trees.iter().flat_map(|tree| &tree.edges) {
        let nodes: Vec<&str> = edge.path().map(|node| plan.id(node)).collect();
        links.extend(nodes.windows(2).map(|hop| (hop[0], hop[1])));
    }
    links.sort_unstable();
    links.dedup();
    for options in [by(Colour::Load, None), Options::default()] {
        let svg = text(&plan, Format::Svg, &options);
        assert_eq!(svg.matches("<path d=\"M").count(), 2 * links.len(), "a line and its head");
        assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count());
        assert!(topology.nodes().iter().all(|node| svg.contains(&*node.id)));
        assert!(!svg.contains("href") && !svg.contains("<script"), "self-contained");
        assert!(svg.contains("#800026"), "the busiest link");
        let dot = text(&plan, Format::Dot, &options);
        assert_eq!(dot.matches(" -> ").count(), links.len());
        assert_eq!(dot.matches("subgraph cluster_").count(), 2);
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    }
    // One tree alone: as many lines as it has hops.
    let tree = &trees.forests[0].trees[3];
    let mut hops: Vec<_> = tree
        .edges
        .iter()
        .flat_map(|edge| edge.path().collect::<Vec<_>>().windows(2).map(|hop| (hop[0], hop[1])).collect::<Vec<_>>())
        .collect();
    hops.sort_unstable();
    hops.dedup();
    let dot = text(&plan, Format::Dot, &by(Colour::Tree, Some(3)));
    assert_eq!(dot.matches(" -> ").count(), hops.len());
    assert!(dot.contains("tree 3: 1/16 of the data"));
    let errors = export(&plan, None, Format::Dot, &by(Colour::Tree, Some(16))).expect_err("no such tree");
    assert_eq!(errors.code(), E_RANGE);
}

#[test]
fn hostile_names_stay_text() {
    let evil = "<a&\\\" -> b; </svg><script>";
    let topology = edited(&complete(3, "1").expect("valid"), |file| {
        file["name"] = json!(evil);
        file["nodes"][0]["id"] = json!(evil);
        for link in file["links"].as_array_mut().expect("links") {
            for end in ["from", "to"] {
                if link[end] == "n0" {
                    link[end] = json!(evil);
                }
            }
        }
    });
    let plan = planned(&topology, Collective::AllReduce, None);
    for format in [Format::Svg, Format::TreeXml, Format::MscclXml] {
        let text = text(&plan, format, &Options::default());
        assert!(!text.contains("<script") && !text.contains("<a&"), "{}", format.word());
    }
    let dot = text(&plan, Format::Dot, &Options::default());
    assert!(dot.contains(r#""<a&\\\" -> b; </svg><script>""#));
}

#[test]
fn a_picture_of_a_wrong_plan_is_drawn_as_long_as_it_can_be() {
    let topology = complete(4, "1").expect("valid");
    let mut plan = planned(&topology, Collective::AllGather, None);
    let Content::Trees(trees) = &mut plan.body.content else { panic!("trees") };
    trees.forests[0].trees[0].edges.pop();
    assert!(export(&plan, None, Format::Dot, &Options::default()).is_ok());
    let Content::Trees(trees) = &mut plan.body.content else { panic!("trees") };
    let edge = &mut trees.forests[0].trees[1].edges[0];
    edge.dst = edge.src;
    let errors = export(&plan, None, Format::Svg, &Options::default()).expect_err("no such link");
    assert_eq!(errors.code(), UNKNOWN_EDGE);
}
