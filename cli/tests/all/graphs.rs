//! `sluice plan find-topology`: graphs that are found, searched and remembered.

use serde_json::{Value, json};

use crate::desk::{Desk, stderr, stdout};
use crate::plan::{fraction, interrupted};

#[test]
fn graphs_are_found_written_and_remembered() {
    let desk = Desk::new();
    let line =
        "plan find-topology --nodes 8,12 --degree 4 --size 1MiB --alpha 10us --bandwidth 100Gbit/s --cache values";
    let found = desk.json(&format!("{line} --out-dir out"));
    let points = found["frontier"].as_array().expect("a list");
    let best = points.last().expect("a point");
    assert_eq!(
        (&best["N"], &best["d"], &best["T_L"], &best["T_B"]),
        (&json!(12), &json!(4), &json!(2), &json!("11/12"))
    );
    assert_eq!(
        (&best["exact"], &best["constructible"], &best["alltoall_us"]),
        (&json!(true), &json!(true), &Value::Null)
    );
    // 2·(2·10 µs + 11/12·83.88608 µs)
    assert!((best["runtime_us"].as_f64().expect("a time") - 193.791).abs() < 0.001, "{best}");
    for point in points {
        let dir = point["out"].as_str().expect("a directory");
        assert_eq!(
            desk.json(&format!("plan check {dir}/plan.json --topology {dir}/topology.json"))["ok"],
            true,
            "{point}"
        );
        let gen_again = format!("topology show {dir}/topology.json");
        assert_eq!(desk.json(&gen_again)["name"], point["expression"], "{point}");
        assert!(desk.read(&format!("{dir}/topology.svg")).starts_with("<svg"));
    }
    assert!(desk.read("out/frontier-n12-d4.svg").contains("12 machines of 4 ports"));
    let again = desk.json(line);
    assert_eq!(again["computed"], 0, "all values stand in the file");
    assert!(found["computed"].as_u64().expect("a count") > 0);
    let mut damaged = desk.read("values");
    damaged = damaged.replace("\t2\t", "\t1\t");
    desk.write("values", &damaged);
    let output = desk.run(line);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("the digest does not match"), "{}", stderr(&output));
    assert!(stdout(&output).contains("11/12"), "{}", stdout(&output));
    assert_eq!(desk.json(line)["computed"], 0, "and were written anew");
    assert_eq!(
        stdout(&desk.run("plan find-topology --nodes 5 --degree 0 --no-cache")),
        "no graph of this size and degree\n"
    );

    for (line, code, key) in [
        ("--nodes 8 --degree 4 --allow Torsu", "E_RANGE", "--allow"),
        ("--nodes 8 --degree 4 --also K(8", "E_PARSE", "--also"),
        ("--nodes 8 --degree 4 --collective broadcast", "E_RANGE", "--collective"),
        ("--nodes 8 --degree 4 --size 1MB --alpha 10 --bandwidth 1GB/s", "E_RANGE", "--alpha"),
        ("--nodes 8 --degree 4 --size 1MB --alpha 1us --bandwidth 5", "E_RANGE", "--bandwidth"),
        ("--nodes 8 --degree 4 --size 1mb --alpha 1us --bandwidth 5GB/s", "E_RANGE", "--size"),
        ("--nodes 1048576 --degree 64", "TopologyTooLarge", "--nodes"),
    ] {
        let refused = desk.refused(&format!("plan find-topology --no-cache {line}"));
        assert_eq!(refused, (code.into(), key.into()), "{line}");
    }
    for line in
        ["--nodes 0 --degree 4", "--nodes 9-8 --degree 4", "--nodes 8 --degree 65", "--nodes 8 --degree 4 --size 1MB"]
    {
        assert_eq!(desk.run(&format!("plan find-topology {line}")).status.code(), Some(2), "{line}");
    }
}

#[test]
fn graphs_are_searched_at_random_until_the_time_is_up_or_somebody_interrupts() {
    let desk = Desk::new();
    let line = "plan find-topology --nodes 16 --degree 4 --no-cache";
    let (plain, searched) = (desk.json(line), desk.json(&format!("{line} --search 1 --seed 7")));
    let costs = |found: &Value| -> Vec<(u64, f64)> {
        let points = found["frontier"].as_array().expect("a list").iter();
        points.map(|point| (point["T_L"].as_u64().expect("steps"), fraction(&point["T_B"]))).collect()
    };
    for (steps, time) in costs(&plain) {
        assert!(
            costs(&searched).iter().any(|own| own.0 <= steps && own.1 <= time),
            "a search loses nothing: {plain} {searched}"
        );
    }
    let output = interrupted(&desk, "plan find-topology --nodes 500 --degree 4 --no-cache --search 600 --json");
    assert_eq!((output.status.code(), stdout(&output)), (Some(130), String::new()));
}

#[cfg(feature = "lp")]
#[test]
fn the_time_of_an_all_to_all_on_graphs_that_were_found() {
    let desk = Desk::new();
    let line = "plan find-topology --nodes 5 --degree 4 --size 1MiB --alpha 10us --bandwidth 100Gbit/s --no-cache --all-to-all";
    let found = desk.json(line);
    let point = &found["frontier"][0];
    assert_eq!(point["expression"], "DC(5,{1,2,3,4})", "all pairs are joined");
    // Every pair has a link of its own: f = 1, and the time is d/(N·f) of 83.88608 us.
    let time = point["alltoall_us"].as_f64().expect("a time");
    assert!((time / (83.88608 * 4.0 / 5.0) - 1.0).abs() < 1e-5, "{point}");
}
