//! What a machine's lines say, and what is wrong with them. Pure.

/// What begins every line that is a result; `ebpf/examples/kernel_features` prints them.
pub(super) const MARK: &str = "sluice-kernel: ";
/// The first of them.
pub(super) const UP: &str = "sluice-kernel: machine: up";
const DONE: &str = "machine: done";
const FOUND: &str = "what is found";
const DOCTOR: &str = "forecast of `sluice doctor`";
const PROBE: &str = "forecast of `sluiced probe`";
const DAEMON_HOLDS: &str = "the daemon holds a job's connection";
const DAEMON: &str = "the daemon";
/// Ways of enforcing, best first, as they are called everywhere; the last one enforces nothing.
pub(super) const TIERS: [&str; 4] = ["struct_ops", "struct_ops_nolink", "setsockopt", "none"];
/// What is ordered, in Mbit/s, and how far from it a flow may be.
const ORDERED: [f64; 2] = [10.0, 100.0];
const NEAR: f64 = 0.05;
/// A flow is plain again within this after its process was killed.
const BACK_MS: f64 = 400.0;

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) feature: String,
    pub(super) value: String,
}

/// What one kernel did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// As it calls itself.
    pub(super) kernel: String,
    /// Who ran it.
    pub(super) by: String,
    pub(super) rows: Vec<Row>,
}

impl Seen {
    fn value(&self, feature: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.feature == feature).map(|row| row.value.as_str())
    }

    fn of(&self, tier: &str, what: &str) -> Option<&str> {
        self.value(&format!("{tier}: {what}"))
    }
}

/// The result that a line is, wherever in it that begins: the kernel's own words may stand before it.
pub(super) fn row(line: &str) -> Option<Row> {
    let (_, rest) = line.split_once(MARK)?;
    let (feature, value) = rest.split_once(" = ")?;
    // They become cells of a table whose columns are separated by tabs.
    let clean = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Row { feature: clean(feature), value: clean(value) })
}

fn begins_with(value: Option<&str>, word: &str) -> bool {
    value.is_some_and(|value| {
        value == word || value.starts_with(&format!("{word}:")) || value.starts_with(&format!("{word},"))
    })
}

/// Does a tier work there: it opens, and lets go of what it held?
fn works(seen: &Seen, tier: &str) -> bool {
    begins_with(seen.of(tier, "opens"), "yes")
        && seen.of(tier, "plain after kill -9").is_some_and(|v| !v.starts_with("no"))
}

/// Everything that is not as it has to be.
pub(super) fn faults(seen: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    if seen.value(DONE) != Some("yes") {
        faults.push("the machine did not come to its end".into());
    }
    for tier in TIERS {
        match seen.of(tier, "opens") {
            None => faults.push(format!("{tier}: nothing is told of it")),
            Some(value) if begins_with(Some(value), "yes") => of_tier(seen, tier, &mut faults),
            Some(_) => {}
        }
        if let Some(why) = seen.of(tier, "the whole of it") {
            faults.push(format!("{tier}: {why}"));
        }
    }
    forecasts(seen, &mut faults);
    // Where nothing can be enforced the daemon holds nothing.
    if TIERS.into_iter().any(|tier| tier != "none" && works(seen, tier)) {
        let holds = seen.value(DAEMON_HOLDS);
        if !begins_with(holds, "yes") {
            faults.push(format!("{DAEMON_HOLDS}: {}", holds.unwrap_or("nothing is told of it")));
        }
        killed(seen, DAEMON, &mut faults);
    }
    faults
}

/// A tier that opens has to do all that is asked of one.
fn of_tier(seen: &Seen, tier: &str, faults: &mut Vec<String>) {
    let asked: &[&str] = match tier {
        "none" => &["leaves a flow alone"],
        _ => &["takes a connection", "gives back when told"],
    };
    for what in asked {
        let value = seen.of(tier, what);
        if !begins_with(value, "yes") {
            faults.push(format!("{tier}: {what}: {}", value.unwrap_or("nothing is told of it")));
        }
    }
    killed(seen, tier, faults);
    if tier == "none" {
        return;
    }
    for ordered in ORDERED {
        let told = seen.of(tier, &format!("ordered {ordered} Mbit/s")).unwrap_or("nothing is told of it");
        let rate = told.split(' ').next().and_then(|number| number.parse::<f64>().ok());
        // A ceiling is no rate: the congestion control below it may stay below.
        let least = if tier == "setsockopt" { 0.0 } else { ordered * (1.0 - NEAR) };
        if !rate.is_some_and(|rate| (least..=ordered * (1.0 + NEAR)).contains(&rate)) {
            faults.push(format!("{tier}: ordered {ordered} Mbit/s: {told}"));
        }
    }
}

/// What a tier, or the daemon, held goes back in time when its process is killed.
fn killed(seen: &Seen, whose: &str, faults: &mut Vec<String>) {
    let told = seen.of(whose, "plain after kill -9").unwrap_or("no: nothing is told of it");
    let took = told.split_once(" ms").and_then(|(number, _)| number.parse::<f64>().ok());
    if told.starts_with("no") || took.is_some_and(|took| took > BACK_MS) {
        faults.push(format!("{whose}: plain after kill -9: {told}"));
    }
}

/// What is told beforehand is what happens.
fn forecasts(seen: &Seen, faults: &mut Vec<String>) {
    let best = TIERS.into_iter().find(|tier| works(seen, tier)).unwrap_or("nothing");
    for who in [FOUND, DOCTOR, PROBE] {
        let told = seen.value(who).unwrap_or("nothing is told");
        if told != best {
            faults.push(format!("{who}: {told}; what works is {best}"));
        }
    }
    for tier in TIERS.into_iter().filter(|tier| *tier != "none") {
        let told = seen.value(&format!("{PROBE}, {tier}")).unwrap_or("nothing is told");
        let happens = if works(seen, tier) { "yes" } else { "no" };
        if told != happens {
            faults.push(format!("{PROBE}, {tier}: {told}; what happens: {happens}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without links of struct_ops.
    const GOOD: &str = "\
[    1.2] x sluice-kernel: machine: up = yes
sluice-kernel: struct_ops: opens = no: the kernel refuses it
sluice-kernel: struct_ops_nolink: opens = yes
sluice-kernel: struct_ops_nolink: takes a connection = yes
sluice-kernel: struct_ops_nolink: ordered 10 Mbit/s = 9.98 Mbit/s
sluice-kernel: struct_ops_nolink: ordered 100 Mbit/s = 99.10 Mbit/s
sluice-kernel: struct_ops_nolink: gives back when told = yes, to cubic
sluice-kernel: struct_ops_nolink: plain after kill -9 = 183 ms, then 900 Mbit/s
sluice-kernel: setsockopt: opens = yes
sluice-kernel: setsockopt: takes a connection = yes
sluice-kernel: setsockopt: ordered 10 Mbit/s = 7.00 Mbit/s
sluice-kernel: setsockopt: ordered 100 Mbit/s = 70.10 Mbit/s
sluice-kernel: setsockopt: gives back when told = yes, to cubic
sluice-kernel: setsockopt: plain after kill -9 = 190 ms, then 900 Mbit/s
sluice-kernel: none: opens = yes
sluice-kernel: none: leaves a flow alone = yes
sluice-kernel: none: plain after kill -9 = never held, 900 Mbit/s
sluice-kernel: what is found = struct_ops_nolink
sluice-kernel: the daemon holds a job's connection = yes
sluice-kernel: the daemon: plain after kill -9 = 201 ms
sluice-kernel: forecast of `sluice doctor` = struct_ops_nolink
sluice-kernel: forecast of `sluiced probe` = struct_ops_nolink
sluice-kernel: forecast of `sluiced probe`, struct_ops = no
sluice-kernel: forecast of `sluiced probe`, struct_ops_nolink = yes
sluice-kernel: forecast of `sluiced probe`, setsockopt = yes
sluice-kernel: machine: done = yes
";

    fn seen(text: &str, by: &str) -> Seen {
        Seen { kernel: "6.1.0".into(), by: by.into(), rows: text.lines().filter_map(row).collect() }
    }

    #[test]
    fn a_kernel_that_does_what_is_forecast_has_no_fault() {
        let none: &[String] = &[];
        assert_eq!(faults(&seen(GOOD, "KVM")), none);
        assert_eq!(row("no result"), None);
        assert_eq!(
            row("a sluice-kernel: b\tc = d  e\r").map(|row| (row.feature, row.value)),
            Some(("b c".into(), "d e".into()))
        );
    }

    #[test]
    fn each_difference_is_a_fault_of_its_own() {
        for (from, to, count) in [
            ("machine: done = yes", "machine: done = no", 1),
            ("doctor` = struct_ops_nolink", "doctor` = struct_ops", 1),
            ("probe` = struct_ops_nolink", "probe` = none", 1),
            ("probe`, setsockopt = yes", "probe`, setsockopt = no", 1),
            ("found = struct_ops_nolink", "found = setsockopt", 1),
            ("= yes, to cubic", "= no: it stays", 2),
            ("99.10 Mbit/s", "80.00 Mbit/s", 1),
            ("70.10 Mbit/s", "130.00 Mbit/s", 1),
            ("= 183 ms", "= 583 ms", 1),
            ("never held, 900 Mbit/s", "no: held true", 1),
            ("job's connection = yes", "job's connection = no: it found none", 1),
            ("= 201 ms", "= no: still held after 5 s", 1),
            ("the daemon: plain after kill -9 = 201 ms", "", 1),
            ("sluice-kernel: none: opens = yes\n", "", 1),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let faults = faults(&seen(&GOOD.replace(from, to), "KVM"));
            assert_eq!(faults.len(), count, "{from}: {faults:?}");
        }
        // A tier that keeps its flow does not work, whatever is told of it beforehand.
        let kept =
            faults(&seen(&GOOD.replace("= 183 ms, then 900 Mbit/s", "= no: still under sluice after 5 s"), "KVM"));
        assert_eq!(kept.len(), 5, "{kept:?}");
    }
}
