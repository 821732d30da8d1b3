//! `sluice plan compare`: plans of every planner side by side, and what cannot be compared.

use serde_json::Value;

use crate::desk::{Desk, stderr, stdout};

/// Three in a triangle, all cables alike.
const TRIANGLE: &str =
    "a b 10MB/s 1ms\nb a 10MB/s 1ms\nb c 10MB/s 1ms\nc b 10MB/s 1ms\nc a 10MB/s 1ms\na c 10MB/s 1ms\n";

/// A desk with the triangle, and a plan of each planner for an all-gather on it.
fn planned() -> Desk {
    let desk = Desk::new();
    desk.write("t.txt", TRIANGLE);
    for (planner, out) in
        [("forestcoll", "trees.json"), ("bfb", "steps.json"), ("te-ccl --size 3MB --solver none", "sends.json")]
    {
        let line = format!("plan {planner} --topology t.txt --form edges --collective allgather --timing --out {out}");
        assert_eq!(desk.run(&line).status.code(), Some(0), "{line}");
    }
    desk
}

#[test]
fn every_planner_and_the_ring_side_by_side() {
    let desk = planned();
    let found = desk.json("plan compare trees.json steps.json sends.json --sizes 3kB,3MB --svg f.svg");
    assert_eq!((&found["collective"], &found["participants"]), (&"allgather".into(), &3.into()));
    let plans = found["plans"].as_array().expect("a list");
    let words = |key: &str| plans.iter().map(|plan| plan[key].as_str().unwrap_or("none")).collect::<Vec<_>>();
    assert_eq!(words("plan"), ["trees.json", "steps.json", "sends.json", "ring"]);
    assert_eq!(words("planner"), ["forestcoll", "bfb", "te-ccl", "ring"]);
    assert_eq!(words("kind"), ["trees", "steps", "sends", "trees"]);
    // A third of the data over each cable at 10 MB/s; half as much each way round.
    let times = |plan: usize| {
        plans[plan]["times_s"].as_array().expect("times").iter().map(|time| time.as_f64().expect("a time"))
    };
    let near = |plan: usize, expected: [f64; 2]| {
        assert!(times(plan).zip(expected).all(|(time, expected)| (time - expected).abs() < 1e-12), "{plan}: {found}");
    };
    near(1, [0.0011, 0.101]);
    near(2, [0.0011, 0.101]);
    near(3, [0.0021, 0.102]);
    assert!(plans.iter().all(|plan| plan["time_per_byte"] == "1/30000000" && plan["algbw"] == 30.0), "{found}");
    assert_eq!(plans[3]["best"], serde_json::json!([false, false]));
    assert!(plans.iter().filter(|plan| plan["best"][0] == true).count() >= 2);
    assert!((0..3).all(|plan| plans[plan]["seconds"].as_f64().is_some() && plans[plan]["proof"]["optimal"] == true));
    assert_eq!((&plans[3]["seconds"], &plans[3]["proof"]), (&Value::Null, &Value::Null));
    let svg = desk.read("f.svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("sends.json, te-ccl: sends"));
    assert_eq!(stdout(&desk.run("plan compare trees.json steps.json sends.json --sizes 3kB,3MB --svg -")), svg);
    let table = stdout(&desk.run("plan compare steps.json --sizes 3MB"));
    assert!(
        table.contains("101.000 ms *") && table.contains("102.000 ms") && table.contains("best bandwidth"),
        "{table}"
    );
}

#[test]
fn what_differs_is_named_with_both_files() {
    let desk = planned();
    desk.write("u.txt", &TRIANGLE.replace("1ms", "2ms"));
    let make = |args: &str| {
        assert_eq!(desk.run(&format!("plan forestcoll --form edges {args}")).status.code(), Some(0), "{args}")
    };
    make("--topology u.txt --collective allgather --out other.json");
    make("--topology t.txt --collective allreduce --out sum.json");
    make("--topology t.txt --collective allgather --participants a,b --out two.json");
    for (file, key) in [("other.json", "/topology/sha256"), ("sum.json", "/collective"), ("two.json", "/participants")]
    {
        let line = format!("plan compare steps.json {file} --svg f.svg");
        assert_eq!(desk.refused(&line), ("E_RANGE".into(), key.into()));
        let said = stderr(&desk.run(&line));
        assert!(said.contains("of steps.json") && said.contains(&format!("--> {file} at {key}")), "{said}");
    }
    assert_eq!(desk.refused("plan compare steps.json --sizes 1KB"), ("E_RANGE".into(), "--sizes".into()));
    assert_eq!(desk.refused("plan compare steps.json --sizes 0"), ("E_RANGE".into(), "--sizes".into()));
    assert_eq!(desk.refused("plan compare steps.json none.json").0, "E_PARSE");
    let wrong = desk.read("steps.json").replacen("[0, 0, 1, ", "[1, 0, 1, ", 1);
    desk.write("wrong.json", &wrong);
    let refused = desk.run("plan compare steps.json wrong.json");
    assert!(
        refused.status.code() == Some(3) && stderr(&refused).contains("--> wrong.json at /content/steps/0"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn without_a_ring_a_sentence_says_so() {
    let desk = Desk::new();
    desk.write("t.txt", "a b 10MB/s 1ms\nb a 10MB/s 1ms\nb c 10MB/s 1ms\nc b 10MB/s 1ms\n");
    desk.run("plan bfb --topology t.txt --form edges --collective allgather --size 1MB --out p.json");
    let output = desk.run("plan compare p.json --json");
    assert!(stderr(&output).starts_with("without a ring"), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["plans"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["no_ring"], "no ring over all participants was found");
}
