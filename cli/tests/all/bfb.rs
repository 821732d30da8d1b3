//! `sluice plan bfb` as scripts use it: files in, files out, one JSON document, exit statuses.

use crate::desk::{Desk, stdout};
use serde_json::{Value, json};

#[test]
fn figures_under_their_names_and_a_plan_that_checks_and_exports() {
    let desk = Desk::new();
    assert!(desk.run("topology gen torus 4x6 --link 25Gbit/s --out t.json").status.success());
    let line = "plan bfb --topology t.json --out p.json --collective";
    let shown = desk.json(&format!("{line} all-gather --size 24MB"));
    let wanted = json!({
        "schema": 1, "planner": "bfb", "collective": "allgather", "N": 24, "d": 4, "T_L": 5, "T_B": "23/24",
        "load_sum": "23/4", "P": 4, "bw_optimal": true, "moore_optimal": false, "loads": ["1", "7/4", "7/4", "1", "1/4"],
        "size": "24000000", "out": "p.json"
    });
    for (key, value) in wanted.as_object().expect("keys") {
        assert_eq!(&shown[key], value, "{key}");
    }
    // 23/4 shards of 1 MB over 25 Gbit/s.
    assert_eq!(shown["total_us"], json!(1840.0));
    assert_eq!((&shown["claim"]["optimal"], &shown["claim"]["T_B"]), (&json!(true), &json!("23/24")));
    for collective in ["all-gather", "reduce-scatter", "all-reduce"] {
        let shown = desk.json(&format!("{line} {collective}"));
        assert_eq!(shown["bw_optimal"], true);
        assert_eq!(desk.json("plan check p.json")["ok"], true, "{collective}");
        for format in ["msccl-xml", "oneccl-xml"] {
            let made = desk.json(&format!("plan export p.json --format {format} --verify --out p.xml"));
            assert_eq!((&made["verified"]["fault"], &made["verified"]["ranks"]), (&json!(null), &json!(24)));
        }
    }
    let text = stdout(&desk.run("plan bfb --topology t.json --collective all-gather --chunks 1"));
    assert!(text.contains("24 nodes, degree 4") && text.contains("1 per shard"), "{text}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let desk = Desk::new();
    assert!(desk.run("topology gen hypercube 4 --out t.json").status.success());
    let line = "plan bfb --topology t.json --collective all-reduce";
    assert!(desk.run(&format!("{line} --threads 1 --out a.json")).status.success());
    assert!(desk.run(&format!("{line} --threads 2 --json --out b.json")).status.success());
    assert_eq!(desk.read("a.json"), desk.read("b.json"));
    assert_eq!(stdout(&desk.run(&format!("{line} --out -"))), desk.read("a.json"));
    let plan: Value = serde_json::from_str(&desk.read("a.json")).expect("JSON");
    assert_eq!(plan["made_by"]["command"], "sluice plan bfb --topology t.json --collective allreduce");
}

#[test]
fn unequal_links_have_a_time_and_no_bandwidth_term() {
    let desk = Desk::new();
    assert!(desk.run("topology gen ring 4 --link 1GB/s --out t.json").status.success());
    let mut file: Value = serde_json::from_str(&desk.read("t.json")).expect("JSON");
    file["links"][0]["latency"] = json!("5us");
    desk.write("t.json", &file.to_string());
    let line = "plan bfb --topology t.json --collective all-gather --out p.json";
    assert_eq!(desk.refused(line), ("E_MISSING".into(), "--size".into()));
    let shown = desk.json(&format!("{line} --size 4kB"));
    assert_eq!((&shown["d"], &shown["T_B"]), (&json!(null), &json!(null)));
    assert!(shown["total_us"].as_f64().is_some_and(|time| time > 1.0), "{shown}");
    assert_eq!(desk.json("plan check p.json")["ok"], true);
    let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    assert!(plan["made_by"]["command"].as_str().is_some_and(|command| command.contains("--size 4kB")));
}

#[test]
fn refusals_have_status_2_name_the_place_and_write_nothing() {
    let desk = Desk::new();
    assert!(desk.run("topology gen star 1GB/s,1GB/s,1GB/s --out s.json").status.success());
    assert!(desk.run("topology gen ring 4 --one-way --out r.json").status.success());
    let cases = [
        ("plan bfb --topology s.json --collective all-gather", "UNSUPPORTED_FIELD", "/nodes/3/kind"),
        ("plan bfb --topology r.json --collective all-gather --chunks 0", "InvalidChunking", "--chunks"),
        ("plan bfb --topology r.json --collective broadcast", "E_RANGE", "--collective"),
    ];
    for (line, code, key) in cases {
        assert_eq!(desk.refused(&format!("{line} --out p.json")), (code.into(), key.into()), "{line}");
        assert!(!desk.path("p.json").exists());
    }
}

/// Without `--out` no plan is made, and the figures are the same.
#[test]
fn figures_need_no_plan() {
    let desk = Desk::new();
    for (family, more) in [
        ("torus 4x6 --link 25Gbit/s", "--size 1MB"),
        ("hypercube 3", "--chunks 5"),
        ("ring 5 --one-way", "--proof diameter"),
        ("--expr Pi(4,11)", ""),
    ] {
        assert!(desk.run(&format!("topology gen {family} --out t.json")).status.success());
        for collective in ["all-gather", "reduce-scatter", "all-reduce"] {
            let line = format!("plan bfb --topology t.json --collective {collective} {more}");
            let (mut alone, mut with) = (desk.json(&line), desk.json(&format!("{line} --out p.json")));
            for shown in [&mut alone, &mut with] {
                let shown = shown.as_object_mut().expect("an object");
                assert!(shown.remove("seconds").is_some());
                shown.remove("out");
            }
            assert_eq!(alone, with, "{family} {collective}");
        }
    }
}
