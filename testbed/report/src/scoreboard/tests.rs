//! Rows, sentences, tables and the picture of made-up records.

use std::collections::BTreeSet;

use super::record::{Bound, Load, Record, Source, Tried};
use super::words::{Verdict, sentences, verdict};
use super::*;
use crate::job::JobFigures;
use crate::measured::{CpuSeconds, JobResult, PolicyRun};

/// A run of two jobs; the second takes `last` times as long as the first.
fn record(case: &str, policy: &str, turn: usize, jct: f64, last: f64) -> Record {
    let job =
        |id: &str, jct: f64| JobResult { figures: JobFigures::new(id, "m", 0.0, 0.0, jct), ..JobResult::default() };
    let first = 2.0 * jct / (1.0 + last);
    let mut run = PolicyRun {
        policy: policy.into(),
        jobs: vec![job("a", first), job("b", first * last)],
        ..PolicyRun::default()
    };
    run.summarise(2);
    if policy.starts_with("sluice") {
        run.cpu = CpuSeconds { jobs: 1.0, daemons: 2.5, switches: 0.5 };
    }
    Record { case: case.into(), policy: policy.into(), turn, run, build: "1".into(), ..Record::default() }
}

fn turns(case: &str, policy: &str, jct: &[f64]) -> Vec<Record> {
    jct.iter().enumerate().map(|(at, jct)| record(case, policy, at + 1, *jct, 1.5)).collect()
}

fn beside(mut records: Vec<Record>, bytes: u64) -> Vec<Record> {
    for record in &mut records {
        record.unmanaged = true;
        (record.run.cross_bytes, record.run.cross_interval_s) = (bytes, 2.0);
    }
    records
}

fn bound(case: &str, jct: f64) -> Bound {
    let tried = |by: &str, jct_mean_s| Tried { by: by.into(), jct_mean_s };
    Bound { case: case.into(), tried: vec![tried("static", jct + 1.0), tried("sincronia", jct)], ..Bound::default() }
}

fn row(records: &[Record], bounds: &[Bound]) -> Row {
    Board::of(records, bounds).rows.remove(0)
}

#[test]
fn the_best_tcp_is_that_of_the_turns_which_all_have() {
    // In its own turns Reno is ahead, in those of both CUBIC is.
    let mut records = turns("c", "fair:cubic", &[10.0, 10.0]);
    records.extend(turns("c", "fair:reno", &[11.0, 11.0, 2.0]));
    records.extend(turns("c", "fair:mltcp", &[3.0, 3.0]));
    records.extend(turns("c", "sluice", &[9.0, 8.0]));
    let row = row(&records, &[]);
    assert_eq!(row.best_tcp.as_deref(), Some("fair:cubic"));
    let names: Vec<&str> = row.policies.iter().map(|p| p.policy.as_str()).collect();
    assert_eq!(names, ["fair:cubic", "fair:reno", "fair:mltcp", "sluice"]);
    let pairs: Vec<String> = row.against.iter().map(|a| format!("{} {}", a.policy, a.baseline)).collect();
    assert_eq!(pairs, ["fair:mltcp fair:cubic", "sluice fair:cubic", "sluice fair:mltcp"]);
    let sluice = row.against_best("sluice").expect("compared");
    assert_eq!(sluice.paired.ratios, [0.9, 0.8]);
    assert_eq!((sluice.paired.worst, sluice.worst_turn), (0.9, 1));
}

#[test]
fn only_turns_that_both_have_are_pairs() {
    let mut records = turns("c", "fair:bbr", &[10.0, 20.0]);
    records.push(record("c", "sluice", 2, 10.0, 1.5));
    records.push(record("c", "sluice", 3, 1.0, 1.5));
    assert_eq!(row(&records, &[]).against_best("sluice").expect("compared").paired.ratios, [0.5]);
    records.retain(|r| r.policy != "sluice" || r.turn == 3);
    let row = row(&records, &[]);
    assert!(row.against.is_empty());
    assert!(sentences(&row)[0].contains("nothing is compared"), "{:?}", sentences(&row));
}

#[test]
fn the_worst_job_is_found_and_told() {
    let records = [record("c", "fair:bbr", 1, 10.0, 1.0), record("c", "sluice", 1, 9.0, 2.0)];
    let row = row(&records, &[]);
    let against = row.against_best("sluice").expect("compared");
    assert_eq!(against.worst_job, "b");
    assert!((against.worst_job_ratio - 1.2).abs() < 1e-9 && (against.p99_ratio - 1.2).abs() < 1e-9, "{against:?}");
    assert!(sentences(&row)[0].contains("job b takes 1.20 of its time"), "{:?}", sentences(&row));
}

#[test]
fn a_way_is_the_part_that_was_gone_and_lies_in_its_interval() {
    let mut records = turns("c", "fair:bbr", &[20.0, 21.0, 19.0]);
    records.extend(turns("c", "sluice", &[15.0, 16.5, 13.5]));
    let row = row(&records, &[bound("other", 1.0), bound("c", 10.0)]);
    let way = row.against_best("sluice").and_then(|a| a.way.clone()).expect("a way");
    assert!((way.part - 0.5).abs() < 1e-9 && way.by == "sincronia" && way.order_s == 10.0, "{way:?}");
    let interval = way.interval.expect("three pairs");
    assert!(interval.low <= 0.5 && interval.high >= 0.5 && interval.low < interval.high, "{interval:?}");
    assert!(sentences(&row)[0].contains("50 %"), "{:?}", sentences(&row));
}

#[test]
fn there_is_no_way_beside_unmanaged_traffic_or_to_a_slower_order() {
    let mut records = turns("c", "fair:bbr", &[20.0, 21.0]);
    records.extend(turns("c", "sluice", &[15.0, 16.0]));
    let slow = row(&records, &[bound("c", 30.0)]);
    assert_eq!(slow.against_best("sluice").and_then(|a| a.way.clone()), None);
    assert!(sentences(&slow)[0].contains("no way is known"), "{:?}", sentences(&slow));
    let crossed = row(&beside(records, 8), &[bound("c", 10.0)]);
    assert_eq!(crossed.against_best("sluice").and_then(|a| a.way.clone()), None);
    assert!(!sentences(&crossed)[0].contains("way"), "{:?}", sentences(&crossed));
}

#[test]
fn a_gain_is_called_one_only_where_chance_hardly_made_it() {
    let said = |sluice: &[f64]| {
        let mut records = turns("c", "fair:bbr", &[10.0; 5][..sluice.len()]);
        records.extend(turns("c", "sluice", sluice));
        let row = row(&records, &[]);
        (verdict(row.against_best("sluice").expect("compared")), markdown(&Board::of(&records, &[])))
    };
    let (clear, text) = said(&[9.0, 9.1, 8.9, 9.0, 9.0]);
    assert_eq!(clear, Verdict::Gain);
    assert!(text.contains("gain: sluice 10.0 % below fair:bbr (90 %: ") && !text.contains("no gain"), "{text}");
    let (chance, text) = said(&[9.0, 10.9, 9.1, 10.8, 9.0]);
    assert_eq!(chance, Verdict::NoGain);
    assert!(text.contains("no gain: sluice 2.4 % below fair:bbr, which may be chance"), "{text}");
    let (slower, text) = said(&[10.5, 10.4, 10.6, 10.5, 10.5]);
    assert_eq!(slower, Verdict::NoGain);
    assert!(text.contains("no gain: sluice 5.0 % above fair:bbr (90 %: -"), "{text}");
    let (one, text) = said(&[9.0]);
    assert_eq!(one, Verdict::Unknown);
    assert!(text.contains("one pair only, chance is not ruled out"), "{text}");
    let (one, text) = said(&[11.0]);
    assert_eq!(one, Verdict::NoGain);
    assert!(text.contains("no gain: sluice 10.0 % above fair:bbr (one pair)"), "{text}");
}

#[test]
fn what_unmanaged_traffic_lost_is_told_with_the_gain() {
    let mut records = beside(turns("c", "fair:bbr", &[10.0, 10.0, 10.0]), 8_000_000);
    records.extend(beside(turns("c", "sluice", &[9.0, 9.0, 9.0]), 6_000_000));
    let board = Board::of(&records, &[]);
    assert_eq!(board.rows[0].of("fair:bbr").and_then(|p| p.unmanaged_bytes_s), Some(4e6));
    let text = markdown(&board);
    assert!(text.contains("unmanaged traffic gets 0.75 of what it gets beside fair:bbr"), "{text}");
    let line = tsv(&board).lines().last().map(str::to_owned).unwrap_or_default();
    assert!(line.contains("\t3000000\t") && line.contains("\t0.750000\t"), "{line}");
}

#[test]
fn a_table_has_a_cell_for_every_column() {
    let mut records = turns("c", "fair:bbr", &[10.0, 11.0]);
    records.extend(turns("c", "sluice", &[9.0, 9.5]));
    let mut other = beside(turns("d|e", "fair:cubic", &[4.0]), 5);
    other.iter_mut().for_each(|r| r.load = Load::Busy);
    records.extend(other);
    let board = Board::of(&records, &[bound("c", 5.0)]);
    let wide: BTreeSet<usize> = tsv(&board).lines().map(|l| l.split('\t').count()).collect();
    assert_eq!(wide, BTreeSet::from([25]));
    assert_eq!(tsv(&board).lines().count(), 4);
    let text = markdown(&board);
    for block in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let cells: BTreeSet<usize> = block.lines().map(|l| l.replace("\\|", "").matches('|').count()).collect();
        assert_eq!(cells.len(), 1, "{block}");
    }
    assert!(text.contains("| d\\|e | busy |") && text.contains("10.50 ± 0.71 (2)"), "{text}");
    assert!(text.contains("| c | quiet | sluice | 2 |") && text.contains("| 2.5 | 0.5 |"), "{text}");
}

#[test]
fn doubts_are_told() {
    let mut records = turns("c", "fair:bbr", &[10.0, 11.0]);
    records.extend(turns("c", "sluice", &[9.0, 9.5]));
    assert_eq!(Board::of(&records, &[]).doubts.len(), 1, "two pairs");
    records[0].build = "2".into();
    records[1].machine = "another".into();
    records[2].run.lateness.p99_us = 20_000;
    let doubts = Board::of(&records, &[]).doubts.join("\n");
    for word in ["2 builds", "2 machines", "fewer than 3 pairs", "In 1 of the runs"] {
        assert!(doubts.contains(word), "{doubts}");
    }
    records[2].load = Load::Busy;
    assert!(!Board::of(&records, &[]).doubts.join("\n").contains("timers"));
}

#[test]
fn the_picture_has_a_dot_per_run_and_no_markup_from_outside() {
    let mut records = beside(turns("with <cross> & more", "fair:bbr", &[10.0, 11.0]), 9_000_000);
    records.extend(beside(turns("with <cross> & more", "sluice", &[9.0, 9.5]), 7_000_000));
    records.extend(turns("alone", "sluice", &[4.0]));
    let board = Board::of(&records, &[]);
    let picture = svg(&board);
    // A dot per run and one per policy in the legend.
    assert_eq!(picture.matches("<circle ").count(), 5 + 2);
    assert!(picture.contains("with &lt;cross&gt; &amp; more") && !picture.contains("<cross>"), "{picture}");
    assert!(picture.contains("MB/s") && picture.contains(">turn<") && picture.contains("prefers-color-scheme:dark"));
    assert!(svg(&Board::default()).ends_with("</svg>\n"));
    // The legend of six policies is wider than one panel.
    let all: Vec<Record> = board::ORDER.iter().map(|policy| record("c", policy, 1, 9.0, 1.0)).collect();
    let one = svg(&Board::of(&all, &[]));
    let number = |text: &str| text.split('"').next().and_then(|n| n.parse::<f64>().ok()).expect("a number");
    let width = number(one.split(" width=\"").nth(1).expect("a width"));
    let last = number(one.split("<circle class=\"p5\" cx=\"").nth(1).expect("a legend"));
    assert!(last + 9.0 + 7.0 * "sluice:fair".len() as f64 <= width, "{last} of {width}");
    if let Some(path) = std::env::var_os("SLUICE_SAMPLE_BOARD") {
        drop(std::fs::write(path, picture));
    }
}

#[test]
fn a_record_comes_back_from_its_text() {
    // Quarters, which texts of numbers hold to the bit.
    let mut record = record("c", "sluice", 3, 9.25, 1.0);
    record.scenario = Source { file: "c.toml".into(), sets: vec!["a.b=1".into()], digest: "ff".into() };
    record.load = Load::Busy;
    record.run.jobs[0].rounds = vec![(0.5, 0.75)];
    let text = serde_json::to_string(&record).expect("text");
    assert_eq!(serde_json::from_str::<Record>(&text).expect("a record"), record);
    assert!(serde_json::from_str::<Record>(&text[..text.len() / 2]).is_err());
    assert_eq!("busy".parse::<Load>(), Ok(Load::Busy));
    assert!("idle".parse::<Load>().is_err());
}
