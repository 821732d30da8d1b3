//! What single schedulers do, worked out by hand.

use sluice_simulate::policy::{PolicyError, build};

use super::{close, jcts, mean, ring, scenario, star, under};

const GB: u64 = 1_000_000_000;

#[test]
fn the_short_round_goes_first() {
    let jobs = [ring("long", 4 * GB, "1", 1, "0", &[0, 1]), ring("short", GB, "1", 1, "0", &[0, 1])].concat();
    let s = scenario(&format!("{}{jobs}", star(2)));
    for policy in ["sincronia", "varys", "oracle", "echelonflow", "crux"] {
        let got = jcts(&under(policy, &s));
        assert!(close(&got, &[6.0, 2.0]), "{policy}: {got:?}");
    }
    assert!(close(&jcts(&under("fair", &s)), &[6.0, 3.0]));
}

#[test]
fn the_oracle_promotes_a_round_that_waited_for_long_enough() {
    // Rounds of a second each follow one another at once; the round of four seconds asks for all of the link too, so D is 2.
    let jobs = [ring("long", 4 * GB, "0", 1, "0", &[0, 1]), ring("short", GB, "0", 30, "0", &[0, 1])].concat();
    let s =
        scenario(&format!("{}{jobs}[scheduler]\nname = \"oracle\"\n[scheduler.sluice]\npromote_kappa = 1\n", star(2)));
    let waits = jcts(&under("varys", &s))[0];
    assert!(close(&[waits], &[34.0]), "{waits}");
    // Older than 1 · (1 + 2) · 4 seconds: the thirteenth short round may end, then it goes.
    let promoted = jcts(&under("oracle", &s))[0];
    assert!((16.0 - 1e-6..=17.0 + 1e-6).contains(&promoted), "{promoted}");
}

#[test]
fn a_heavier_job_may_go_before_a_shorter_one() {
    let long = ring("long", 4 * GB, "1", 1, "0", &[0, 1]).replace("[[jobs]]", "[[jobs]]\nweight = 8");
    let s = scenario(&format!("{}{long}{}", star(2), ring("short", GB, "1", 1, "0", &[0, 1])));
    assert!(close(&jcts(&under("sincronia", &s)), &[5.0, 6.0]));
    // Γ does not know weights.
    assert!(close(&jcts(&under("varys", &s)), &[6.0, 2.0]));
}

#[test]
fn stages_of_mcs() {
    let ring3 = |options: &str| {
        let job = ring("a", 3 * GB / 2, "0.25", 1, "0", &[0, 1, 2]);
        jcts(&under(
            "mcs",
            &scenario(&format!("{}{job}[scheduler]\nname = \"mcs\"\n[scheduler.mcs]\n{options}\n", star(3))),
        ))
    };
    // Three flows of 2 GB one after the other; or four chunks of half a second each.
    assert!(close(&ring3(""), &[6.25]), "{:?}", ring3(""));
    assert!(close(&ring3("ring = \"chunk\""), &[2.25]));
    // Every stage waits for the decision: 3 or 4 of them.
    assert!(close(&ring3("delay_ms = 100"), &[6.55]), "{:?}", ring3("delay_ms = 100"));
    assert!(close(&ring3("ring = \"chunk\"\ndelay_ms = 100"), &[2.65]));
}

#[test]
fn mcs_waits_for_the_server_or_for_all_servers() {
    let ps = |options: &str| {
        // Two servers; what comes in at the second one's host shares with three cross flows for the first 3 seconds.
        let job = "[[jobs]]\nid = \"a\"\narch = \"ps\"\nbytes = 2000000000\ncompute_s = 0\niterations = 1\n\
                   placement = { workers = [\"h0\"], servers = [\"h1\", \"h2\"] }\n";
        let cross = |h| format!("[[cross_flows]]\nsrc = \"h{h}\"\ndst = \"h2\"\nstart_s = 0\nend_s = 3\n");
        let cross = [cross(3), cross(4), cross(5)].concat();
        let text = format!("{}{job}{cross}[scheduler]\nname = \"mcs\"\n[scheduler.mcs]\n{options}\n", star(6));
        jcts(&under("mcs", &scenario(&text)))[0]
    };
    // The slow aggregation ends at 3.25 s. Then both broadcasts take two seconds, or the second its one: the first server
    // began at 2 s.
    let (job, server) = (ps(""), ps("scope = \"server\""));
    assert!(close(&[job, server], &[5.25, 4.25]), "per job {job}, per server {server}");
}

#[test]
fn mcs_has_two_stages_where_others_have_none() {
    let job = "[[jobs]]\nid = \"a\"\narch = \"ps\"\nbytes = 1000000000\ncompute_s = 0\niterations = 1\n\
               placement = { workers = [\"h0\", \"h1\"], servers = [\"h2\"] }\n";
    let s = scenario(&format!("{}{job}", star(3)));
    assert!(close(&jcts(&under("mcs", &s)), &[4.0]));
    for policy in ["fair", "sincronia", "varys", "oracle", "aalo", "echelonflow", "mltcp", "crux", "cassini", "ccml"] {
        let got = jcts(&under(policy, &s));
        assert!(close(&got, &[2.0]), "{policy}: {got:?}");
    }
}

#[test]
fn aalo_lets_a_newcomer_pass() {
    let jobs = [ring("old", 4 * GB, "0", 1, "0", &[0, 1]), ring("new", GB / 200, "0", 1, "1", &[0, 1])].concat();
    let s = scenario(&format!("{}{jobs}", star(2)));
    // 5 MB per flow, 10 MB in all: the newcomer ends in the first queue.
    let got = jcts(&under("aalo", &s));
    assert!(close(&got, &[4.005, 0.005]), "{got:?}");
    let weighted =
        scenario(&format!("{}{jobs}[scheduler]\nname = \"aalo\"\n[scheduler.aalo]\nsharing = \"weighted\"\n", star(2)));
    let got = jcts(&under("aalo", &weighted));
    // 2 GB sent are queue 3 of 10 (beyond 1 GB): 7 against 10.
    assert!(close(&got, &[4.005, 0.0085]), "{got:?}");
}

#[test]
fn echelonflow_serves_stages_as_they_are_due() {
    // Two stages of 1 GB between the same hosts, the second due a second later: it does not slow the first.
    let flows = "flows = [{ id = \"x\", src = \"h0\", dst = \"h1\", bytes = 1000000000 }, \
                 { id = \"y\", src = \"h0\", dst = \"h1\", bytes = 1000000000, ideal_offset_s = 8 }]";
    let text = format!("{}[[jobs]]\nid = \"a\"\narch = \"flows\"\ncompute_s = 0\niterations = 1\n{flows}\n", star(2));
    let s = scenario(&text);
    assert!(close(&jcts(&under("echelonflow", &s)), &[2.0]));
    assert!(close(&jcts(&under("varys", &s)), &[2.0]));
}

#[test]
fn mltcp_slides_equal_jobs_apart() {
    let jobs = |n| [ring("a", GB, "1", n, "0", &[0, 1]), ring("b", GB, "1", n, "0.1", &[0, 1])].concat();
    let s = scenario(&format!("{}{}", star(2), jobs(30)));
    let (fair, mltcp) = (mean(&jcts(&under("fair", &s))), mean(&jcts(&under("mltcp", &s))));
    // 2 s per iteration is what one job alone needs; in step it is 3.
    assert!(mltcp < 0.8 * fair && mltcp > 60.0 - 1e-6, "{mltcp} {fair}");
}

#[test]
fn unequal_weights_slide_equal_jobs_apart() {
    let jobs = [ring("a", GB, "1", 30, "0", &[0, 1]), ring("b", GB, "1", 30, "0", &[0, 1])].concat();
    let text = format!("{}{jobs}[scheduler]\nname = \"ccml\"\n[scheduler.ccml]\nvariant = \"unfair\"\n", star(2));
    let s = scenario(&text);
    let (fair, unfair) = (mean(&jcts(&under("fair", &s))), mean(&jcts(&under("ccml", &s))));
    assert!((fair - 90.0).abs() < 1e-6 && unfair < 63.0, "{unfair} {fair}");
}

/// Two leaves, two spines; two rings whose flows the hash may put on one spine.
fn leaf_spine(seed: u64, paths: bool) -> String {
    let links: Vec<String> = [
        ("h0", "l0"),
        ("h1", "l0"),
        ("h2", "l1"),
        ("h3", "l1"),
        ("l0", "s0"),
        ("l0", "s1"),
        ("l1", "s0"),
        ("l1", "s1"),
    ]
    .iter()
    .map(|(a, b)| format!("{{ a = \"{a}\", b = \"{b}\", gbps = 8 }}"))
    .collect();
    let hosts: Vec<String> = (0..4).map(|h| format!("{{ id = \"h{h}\", gpus = 4 }}")).collect();
    format!(
        "version = 1\nname = \"t\"\nseed = {seed}\n[network]\nkind = \"explicit\"\nhosts = [{}]\n\
         switches = [{{ id = \"l0\" }}, {{ id = \"l1\" }}, {{ id = \"s0\" }}, {{ id = \"s1\" }}]\nlinks = [{}]\n{}{}\
         [scheduler]\nname = \"crux\"\n[scheduler.crux]\npaths = {paths}\n",
        hosts.join(", "),
        links.join(", "),
        ring("a", GB, "0.5", 2, "0", &[0, 2]),
        ring("b", GB, "0.5", 2, "0", &[1, 3]),
    )
}

#[test]
fn crux_finds_the_free_path() {
    let mut collided = 0;
    for seed in 0..16 {
        let s = scenario(&leaf_spine(seed, true));
        assert!(close(&jcts(&under("crux", &s)), &[3.0, 3.0]), "seed {seed}");
        let fixed = scenario(&leaf_spine(seed, false));
        let alone = close(&jcts(&under("fair", &fixed)), &[3.0, 3.0]);
        let kept = jcts(&under("crux", &fixed));
        assert_eq!(close(&kept, &[3.0, 3.0]), alone, "seed {seed}: {kept:?}");
        collided += usize::from(!alone);
    }
    assert!(collided > 0);
}

#[test]
fn what_cannot_be_run_says_what_can() {
    let job = ring("a", GB, "1", 1, "0", &[0, 1]);
    let s = scenario(&format!("{}{job}[scheduler]\nname = \"mcs\"\n[scheduler.mcs]\norder = \"lp\"\n", star(2)));
    let why = |name: &str| build(&name.parse().expect("a name"), &s).map(|_| ()).map_err(|e| e.to_string());
    assert!(why("mcs").is_err_and(|e| e.contains("primal-dual")));
    assert_eq!(why("bound"), Err(PolicyError::Bound.to_string()));
    let text = format!(
        "{}[placement]\npolicy = \"spread\"\ncandidates = 10\n{}",
        star(2),
        ring("a", GB, "1", 1, "0", &[0, 1])
    );
    let ten = build(&"cassini".parse().expect("a name"), &scenario(&text)).map(|_| ());
    assert!(ten.is_err_and(|e| e.to_string().contains("placement.candidates = 10")));
    assert!(why("sluice").is_err_and(|e| e.contains("sincronia")));
    assert_eq!(why("fair:cubic"), Ok(()));
    assert!(why("fair:mltcp").is_err_and(|e| e.contains("use \"mltcp\"")));
}
