//! `sluice plan te-ccl`: every solver and mode, demands of tenants, what is refused, and time that runs out.

use serde_json::json;

use crate::desk::Desk;

/// Two triangles of 50 GB/s with a thin cable each way.
const CHASSIS: &str = "a b 50GB/s\nb a 50GB/s\nb c 50GB/s\nc b 50GB/s\nc a 50GB/s\na c 50GB/s\n\
    d e 50GB/s\ne d 50GB/s\ne f 50GB/s\nf e 50GB/s\nf d 50GB/s\nd f 50GB/s\n\
    a d 12.5GB/s 1us\nd a 12.5GB/s 1us\n";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("t.txt", CHASSIS);
    desk
}

const PLAN: &str = "plan te-ccl --topology t.txt --form edges";

#[test]
fn every_solver_and_mode_gives_a_plan_that_is_good() {
    let desk = desk();
    let rows = [
        ("--collective allgather --size 6MB", "optimal"),
        ("--collective allgather --size 6MB --solver none", "optimal"),
        ("--collective allgather --size 6MB --solver milp --mode feasible --epochs 40", ""),
        ("--collective allgather --size 6MB --solver astar --epoch slow", ""),
        ("--collective allgather --size 6MB --solver astar --epoch slow --epochs 4", ""),
        ("--collective alltoall --chunk 1MB --epoch slow --solver lp", "optimal"),
        ("--collective scatter --root b --chunk 1MB --epoch slow --mode objective", "optimal"),
        ("--collective alltoall --chunk 1MB --epoch slow --solver lp --mode objective --objective harmonic", "optimal"),
        (
            "--collective broadcast --root b --size 1MB --epoch slow --mode objective --objective sum-completion --epochs 9",
            "optimal",
        ),
        ("--collective scatter --root b --size 6MB --epoch slow", "optimal"),
        ("--collective gather --root b --size 6MB --epoch slow", "optimal"),
        ("--collective reduce --root b --size 6MB --epoch slow", "optimal"),
        ("--collective reduce_scatter --size 6MB --epoch slow", "optimal"),
        ("--collective allreduce --size 6MB --epoch slow", ""),
    ];
    for (row, status) in rows {
        let line = format!("{PLAN} {row} --out p.json");
        let found = desk.json(&line);
        assert!(status.is_empty() || found["status"] == status, "{row}: {found}");
        let whole = ["epochs", "lower_bound_epochs"].map(|key| found[key].as_u64().expect("a number"));
        assert!(whole[0] >= whole[1] && whole[1] > 0, "{row}: {found}");
        for key in ["epoch_us", "finish_us", "objective", "bound", "gap", "algbw", "seconds"] {
            assert!(found[key].is_f64(), "{row}: {key} of {found}");
        }
        let (value, bound) =
            (found["objective"].as_f64().expect("a number"), found["bound"].as_f64().expect("a number"));
        match row.contains("--mode objective") {
            // What is gained is at most the bound; what is needed at least.
            true => assert!(value <= bound + 1e-9, "{row}: {found}"),
            false => assert!(value >= bound && value == whole[0] as f64, "{row}: {found}"),
        }
        assert_eq!(desk.run("plan check p.json").status.code(), Some(0), "{row}");
        // The command in the plan makes the same plan.
        let plan: serde_json::Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
        let command = plan["made_by"]["command"].as_str().expect("a command");
        let again = command.strip_prefix("sluice ").expect("ours");
        assert_eq!(desk.run(&format!("{again} --out q.json")).status.code(), Some(0), "{again}");
        assert_eq!(desk.read("p.json"), desk.read("q.json"), "{row}");
    }
}

#[test]
fn tenants_are_served_by_weight_and_shown_one_by_one() {
    let desk = desk();
    let triples = |first: u64| (first..first + 3).map(|chunk| json!(["a", chunk, "e"])).collect::<Vec<_>>();
    let tenants =
        json!([{"name": "slow", "triples": triples(0)}, {"name": "fast", "weight": 5, "triples": triples(3)}]);
    desk.write("d.json", &json!({"sluice_demands": 1, "tenants": tenants}).to_string());
    let found = desk.json(&format!("{PLAN} --demands d.json --chunk 1MB --epoch slow --out p.json"));
    let ends = |i: usize| found["tenants"][i]["finish_epochs"].as_u64().expect("a number");
    assert_eq!((&found["collective"], &found["tenants"][1]["name"]), (&"custom".into(), &"fast".into()));
    assert!(ends(1) < ends(0) && ends(0) == found["epochs"], "{found}");
    assert_eq!(desk.run("plan check p.json").status.code(), Some(0));
}

#[test]
fn what_would_do_nothing_is_refused_and_nothing_is_written() {
    let desk = desk();
    desk.write("d.json", r#"{"sluice_demands": 1, "tenants": [{"name": "a", "triples": [["a", 0, "nobody"]]}]}"#);
    desk.write("v.json", r#"{"sluice_demands": 2, "tenants": []}"#);
    let rows = [
        ("--collective allgather --size 1MB --epochs 5", "E_KEY", "--epochs"),
        ("--collective allgather --size 1MB --objective harmonic", "E_KEY", "--objective"),
        ("--collective allgather --size 1MB --solver astar --mode objective", "E_KEY", "--mode"),
        (
            "--collective allgather --size 1MB --solver astar --epoch slow --theta 0 --epochs 1",
            "RoundTooShort",
            "--epochs",
        ),
        ("--collective allgather --size 6MB --solver lp", "CopyNeeded", "--solver"),
        ("--collective allreduce --size 6MB --mode objective", "E_RANGE", "--mode"),
        ("--collective alltoall --chunk 1MB --solver lp --hyper-edges", "E_RANGE", "--hyper-edges"),
        ("--demands d.json --chunk 1MB", "BadNode", "/tenants/0/triples/0"),
        ("--demands v.json --chunk 1MB", "E_VERSION", "/sluice_demands"),
    ];
    for (row, code, key) in rows {
        assert_eq!(desk.refused(&format!("{PLAN} {row} --out p.json")), (code.into(), key.into()), "{row}");
    }
    // What clap refuses.
    for row in
        ["--demands d.json", "--demands d.json --chunk 1MB --chunks 2", "--demands d.json --size 1MB", "--size 1MB"]
    {
        assert_eq!(desk.run(&format!("{PLAN} {row} --out p.json")).status.code(), Some(2), "{row}");
    }
    let line = format!("{PLAN} --collective allgather --size 6MB --mode feasible --epochs 1 --out p.json");
    assert_eq!(desk.run(&line).status.code(), Some(3), "the answer is no");
    assert_eq!(desk.files(), ["d.json", "t.txt", "v.json"]);
}

#[test]
fn when_time_runs_out_the_best_plan_is_written() {
    let desk = Desk::new();
    // Two machines of eight at a switch each, which does not copy: the orders come to about twice the bound.
    let mut links = String::new();
    for machine in 0..2 {
        (0..8).for_each(|gpu| {
            links += &format!("m{machine}g{gpu} s{machine} 125GB/s\ns{machine} m{machine}g{gpu} 125GB/s\n")
        });
    }
    (0..8).step_by(2).for_each(|gpu| links += &format!("m0g{gpu} m1g{gpu} 12.5GB/s\nm1g{gpu} m0g{gpu} 12.5GB/s\n"));
    desk.write("t.txt", &links);
    let line = "plan te-ccl --topology t.txt --form edges --switches s0,s1 --collective alltoall --size 1GB --epoch fast \
        --chunks 3 --time-limit 1s --out p.json";
    let found = desk.run(&format!("{line} --json"));
    let shown: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    // A machine that is quick enough may prove the optimum in that time.
    match shown["status"].as_str() {
        Some("time_limit") => assert_eq!(found.status.code(), Some(5)),
        other => assert_eq!((other, found.status.code()), (Some("optimal"), Some(0))),
    }
    assert_eq!(desk.run("plan check p.json").status.code(), Some(0));
}
