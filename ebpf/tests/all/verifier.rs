//! What each program costs the kernel's verifier, against `verifier.tsv`. `SLUICE_UPDATE_EXPECTED=1` writes that anew for
//! the kernel that runs; lines of other kernels stay.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_ebpf::verifier::{Figure, figures};
use sluice_skip::skip;

/// No program may take more instructions than this on any kernel; one that grows towards it is to be split.
const MOST: u32 = 20_000;
/// The verifier's own limit of stack.
const STACK: u32 = 512;
/// A figure may grow by this part before somebody has to look and write it down.
const GROWTH: f64 = 0.10;
const FILE: &str = "verifier.tsv";
const COLUMNS: &str = "kernel\tprogram\tinstructions processed\tbytes of stack";

/// Figures by kernel and program.
type Table = BTreeMap<(String, String), Figure>;

fn read(text: &str) -> Result<Table, String> {
    let mut lines = text.lines();
    if lines.next() != Some(COLUMNS) {
        return Err(format!("{FILE}:1: the first line must be {COLUMNS:?}"));
    }
    let row = |(number, line): (usize, &str)| {
        let place = format!("{FILE}:{}", number + 2);
        let cells: Vec<&str> = line.split('\t').collect();
        let &[kernel, program, processed, stack] = cells.as_slice() else {
            return Err(format!("{place}: {} columns; allowed: 4, with tabs between", cells.len()));
        };
        let number = |cell: &str| cell.parse().map_err(|_| format!("{place}: {cell:?}; allowed: a whole number"));
        let figure = Figure { program: program.to_owned(), processed: number(processed)?, stack: number(stack)? };
        Ok(((kernel.to_owned(), program.to_owned()), figure))
    };
    lines.enumerate().map(row).collect()
}

fn text(table: &Table) -> String {
    let row = |((kernel, program), figure): (&(String, String), &Figure)| {
        format!("{kernel}\t{program}\t{}\t{}\n", figure.processed, figure.stack)
    };
    std::iter::once(format!("{COLUMNS}\n")).chain(table.iter().map(row)).collect()
}

/// `6.18` of `6.18.44-something`.
fn series(release: &str) -> String {
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

/// What is wrong with the figures of one kernel.
fn faults(kernel: &str, figures: &[Figure], kept: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    for figure in figures {
        let Figure { program, processed, stack } = figure;
        if *processed > MOST || *stack > STACK {
            faults.push(format!("{program}: {processed} instructions, {stack} bytes; at most {MOST} and {STACK}"));
        }
        let Some(before) = kept.get(&(kernel.to_owned(), program.clone())) else {
            // A kernel that nobody has written down has the bars of all kernels.
            if kept.keys().any(|(of, _)| of == kernel) {
                faults.push(format!("{program} is not in {FILE}"));
            }
            continue;
        };
        let grown = |now: u32, then: u32| f64::from(now) > f64::from(then) * (1.0 + GROWTH);
        if grown(*processed, before.processed) || grown(*stack, before.stack) {
            faults.push(format!(
                "{program}: {processed} instructions and {stack} bytes of stack, after {} and {}",
                before.processed, before.stack
            ));
        }
    }
    let gone = kept.keys().filter(|(of, name)| of == kernel && !figures.iter().any(|figure| figure.program == *name));
    faults.extend(gone.map(|(_, name)| format!("{FILE} has {name}, which is no program")));
    faults
}

#[test]
fn no_program_costs_the_verifier_more_than_was_written_down() {
    let figures = match figures() {
        Ok(figures) => figures,
        Err(error) => return skip!(Kernel, "{error}"),
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("readable");
    let kernel = series(release.trim());
    for Figure { program, processed, stack } in &figures {
        eprintln!("{kernel}: {program}: {processed} instructions, {stack} bytes of stack");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let mut kept = read(&std::fs::read_to_string(&path).expect("checked in")).expect("a table");
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        kept.retain(|(of, _), _| *of != kernel);
        kept.extend(figures.iter().map(|figure| ((kernel.clone(), figure.program.clone()), figure.clone())));
        std::fs::write(&path, text(&kept)).expect("written");
    }
    assert!(!kept.is_empty(), "{FILE} holds nothing");
    let faults = faults(&kernel, &figures, &kept);
    assert!(faults.is_empty(), "SLUICE_UPDATE_EXPECTED=1 writes it anew:\n{}", faults.join("\n"));
}

#[test]
fn every_program_of_the_objects_is_measured() {
    let figures = match figures() {
        Ok(figures) => figures,
        Err(error) => return skip!(Kernel, "{error}"),
    };
    let prebuilt = Path::new(env!("CARGO_MANIFEST_DIR")).join("prebuilt");
    for object in ["sluice_cc.bpf.o", "sluice_attach.bpf.o"] {
        let bytes = std::fs::read(prebuilt.join(object)).expect("checked in");
        let object = aya_obj::Object::parse(&bytes).expect("an object");
        for program in object.programs.keys() {
            // One of the two is for kernels with the other signature.
            let other = program.starts_with("cong_control");
            assert!(other || figures.iter().any(|figure| figure.program == *program), "{program}");
        }
    }
    assert_eq!(figures.iter().filter(|figure| figure.program.starts_with("cong_control")).count(), 1);
}

#[test]
fn a_program_that_grows_appears_or_goes_is_a_fault() {
    let figure = |program: &str, processed, stack| Figure { program: program.to_owned(), processed, stack };
    let kept =
        read(&format!("{COLUMNS}\n6.18\tinit\t1000\t100\n6.18\trelease\t500\t16\n6.1\tinit\t1\t1\n")).expect("a table");
    assert_eq!(read(&text(&kept)), Ok(kept.clone()));
    let of = |figures: &[Figure]| faults("6.18", figures, &kept).len();
    assert_eq!(of(&[figure("init", 1100, 100), figure("release", 400, 0)]), 0);
    assert_eq!(of(&[figure("init", 1101, 100), figure("release", 400, 0)]), 1);
    assert_eq!(of(&[figure("init", 1000, 120), figure("release", 400, 0)]), 1);
    assert_eq!(of(&[figure("init", 1000, 100)]), 1);
    assert_eq!(of(&[figure("init", 1000, 100), figure("release", 400, 0), figure("new", 1, 1)]), 1);
    // A kernel without lines of its own has the bars of all.
    assert_eq!(faults("6.99", &[figure("init", 19_000, 512)], &kept).len(), 0);
    assert_eq!(faults("6.99", &[figure("init", 20_001, 8)], &kept).len(), 1);
    assert!(read("x").is_err() && read(&format!("{COLUMNS}\na\tb\tc")).is_err());
    assert!(read(&format!("{COLUMNS}\na\tb\tc\t1")).is_err());
    assert_eq!(series("6.18.44-fc-v595"), "6.18");
}
