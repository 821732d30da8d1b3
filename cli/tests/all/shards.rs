//! Long work in shares: put together they are what one command makes alone, to the byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::desk::{Desk, stderr};

const SCENARIO: &str = "version = 1\nname = \"two\"\nseed = 3\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n\
[placement]\npolicy = \"spread\"\n\
[[jobs]]\nid = \"long\"\nbytes = 1_500_000_000\ncompute_s = 1\narch = \"ring\"\nworkers = 2\niterations = 3\n\
[[jobs]]\nid = \"short\"\nbytes = 500_000_000\ncompute_s = 1\narch = \"ring\"\nworkers = 2\niterations = 3\n";

/// Every file below a directory, by its path in it. What a run says of the machine and of its own time is left out.
fn tree(desk: &Desk, name: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![desk.path(name)];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).expect("list").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let inside = path.strip_prefix(desk.path(name)).expect("inside").display().to_string();
                let mut text = std::fs::read_to_string(&path).expect("read");
                if let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(&text)
                    && object.remove("machine").is_some()
                {
                    text = serde_json::Value::Object(object).to_string();
                }
                files.insert(inside, text);
            }
        }
    }
    files
}

#[test]
fn shares_of_a_sweep_come_to_the_same_table_and_files() {
    let desk = Desk::new();
    desk.write("two.toml", SCENARIO);
    let sweep = "sim sweep two.toml --set network.gbps=8,10 --seeds 2 --policy fair --policy sluice --threads 2 -q";
    let run = |rest: &str| {
        let output = desk.run(&format!("{sweep} {rest}"));
        assert_eq!(output.status.code(), Some(0), "{rest}: {}", stderr(&output));
    };
    run("--out whole");
    run("--shard 1/3 --out part1");
    run("--shard 2/3 --out part2");
    assert_eq!((tree(&desk, "part1").len(), tree(&desk, "part2").len()), (3, 3), "runs, and no table");
    let missing = desk.run(&format!("{sweep} --out merged --merge part1 --merge part2").replace(" -q", ""));
    let told = stderr(&missing);
    assert!(
        missing.status.code() == Some(3) && told.contains("2 of 8 runs") && told.contains("numbers 3, 6"),
        "{told}"
    );
    run("--shard 3/3 --out part3");
    run("--out merged --merge part1 --merge part2 --merge part3");
    assert_eq!(tree(&desk, "merged"), tree(&desk, "whole"));
    // Where all share one directory it is merged where it is.
    for share in 1..=3 {
        run(&format!("--shard {share}/3 --out shared"));
    }
    run("--out shared --merge shared");
    assert_eq!(tree(&desk, "shared"), tree(&desk, "whole"));
}

#[test]
fn shares_of_a_search_come_to_the_same_frontier_and_files() {
    let desk = Desk::new();
    let search = "plan find-topology --nodes 8,12,16 --degree 4 --size 1MiB --alpha 10us --bandwidth 100Gbit/s";
    let whole = desk.json(&format!("{search} --cache whole.values --out-dir whole"));
    for share in 1..=2 {
        desk.json(&format!("{search} --shard {share}/2 --cache {share}.values"));
    }
    let merged = desk.json(&format!("{search} --cache all.values --merge 1.values --merge 2.values --out-dir merged"));
    let text = |value: &serde_json::Value| value["frontier"].to_string().replace("merged/", "whole/");
    assert_eq!(text(&merged), text(&whole));
    assert_eq!((&merged["computed"], whole["computed"].as_u64() > Some(0)), (&0.into(), true));
    assert_eq!(tree(&desk, "merged"), tree(&desk, "whole"));
    assert_eq!(desk.read("all.values"), desk.read("whole.values"));
    let without = desk.run(&format!("{search} --shard 1/2"));
    assert_eq!(without.status.code(), Some(2), "shares of a search keep their values in a file of their own");
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples").join(name)
}

/// With `sluice` on the path, as it is where the examples run.
fn shell(desk: &Desk, arguments: &[&str], variables: &[(&str, &str)]) {
    let bin = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().expect("a directory").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).current_dir(desk.path("")).env("PATH", path).envs(variables.iter().copied());
    let output = command.output().expect("a shell");
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
}

#[test]
fn the_slurm_array_does_what_one_command_does() {
    let desk = Desk::new();
    desk.write("two.toml", SCENARIO);
    let script = example("sweep.sbatch").display().to_string();
    let run = |variables: &[(&str, &str)]| {
        shell(&desk, &["bash", &script, "two.toml", "results"], &[&[("SEEDS", "2")][..], variables].concat())
    };
    for task in ["1", "2", "3"] {
        run(&[("SLURM_ARRAY_TASK_ID", task), ("SLURM_ARRAY_TASK_COUNT", "3"), ("SLURM_CPUS_PER_TASK", "1")]);
    }
    run(&[]);
    let whole = desk.run("sim sweep two.toml --seeds 2 --policy fair --policy sluice --out whole -q");
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(tree(&desk, "results"), tree(&desk, "whole"));
}

#[test]
fn the_kubernetes_job_does_what_one_command_does() {
    let desk = Desk::new();
    desk.write("scenario.toml", SCENARIO);
    let here = desk.path("").display().to_string();
    // The words of the one container, as the shell in it gets them.
    let words = |name: &str| {
        let text = std::fs::read_to_string(example(name)).expect("an example");
        let lines = text
            .lines()
            .skip_while(|line| !line.contains(">-"))
            .skip(1)
            .take_while(|line| line.starts_with("              "));
        let words = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        assert!(words.contains("--seeds 16"), "{name}: {words}");
        words.replace("--seeds 16", "--seeds 2").replace("/sweep/", &here)
    };
    for index in 0..8 {
        shell(&desk, &["sh", "-c", &words("sweep-job.yaml")], &[("JOB_COMPLETION_INDEX", &index.to_string())]);
    }
    shell(&desk, &["sh", "-c", &words("sweep-merge.yaml")], &[]);
    let whole = desk.run("sim sweep scenario.toml --seeds 2 --policy fair --policy sluice --out whole -q");
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(tree(&desk, "results"), tree(&desk, "whole"));
}
