use super::*;
use crate::from_topology::Task;

const FORM: &str = r#"{"name": "two", "nodes": 2,
 "links": [{"id": 1, "src": 1, "dst": 0, "cap": 2.5e1}, {"id": 0, "src": 0, "dst": 1, "cap": 22.41433169552037}],
 "flows": [{"id": 1, "collective": 0, "group": 0, "order": 1, "src": 1, "dst": 0, "size": 3, "path": [1], "release_s": 0.5},
           {"id": 0, "collective": 0, "group": 0, "order": 0, "src": 0, "dst": 1, "size": 2.6673215349608546, "path": [0]}]}"#;

#[test]
fn an_instance_becomes_a_network_of_sites_and_flows_with_units() {
    let (topology, wanted) = read(FORM.as_bytes(), "f.json").expect("read");
    let entries: Vec<&str> = topology.file().links.iter().map(|link| &*link.capacity).collect();
    assert_eq!(entries, ["22.41433169552037MB/s", "25MB/s"]);
    assert!(topology.nodes().iter().all(|node| node.kind == Kind::Site));
    assert_eq!(topology.nodes().iter().map(|node| &*node.id).collect::<Vec<_>>(), ["0", "1"]);
    let sizes: Vec<&str> = wanted.flows.flows.iter().map(|flow| flow.size.text()).collect();
    assert_eq!(sizes, ["2.6673215349608546MB", "3MB"]);
    let text = wanted.flows.to_text(&wanted.names);
    let (again, names) = Flows::read(text.as_bytes(), "flows.json").expect("read again");
    assert_eq!(again.to_text(&names), text);
}

#[test]
fn the_instance_of_both_files_is_that_of_the_form_to_the_bit() {
    let (topology, wanted) = read(FORM.as_bytes(), "f.json").expect("read");
    let task = Task::new(&topology, &wanted, &[], "net.json").expect("a task");
    let form = form::read(FORM.as_bytes(), "f.json").expect("an instance");
    assert_eq!(task.instance, form);
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_the_form() {
    let wrong = FORM.replace("2.5e1", "-1");
    let problems = read(wrong.as_bytes(), "f.json").expect_err("refused");
    let first = &problems.all()[0];
    assert_eq!((first.code, &*first.key, &*first.file), ("BadCapacity", "/links/0/cap", "f.json"));
}
