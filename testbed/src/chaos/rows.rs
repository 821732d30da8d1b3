//! All rows: what each injects, which figure it has against which bar, and the function that runs it.
//!
//! The names and the bars are those of docs/chaos.md, whose table is made from this one.

mod clock;
mod deciding;
mod environment;
mod exhaustion;
mod half_open;
mod herd;
mod load;
mod off;
mod operator;
mod partition;
mod random;
mod release;
mod restart;
mod slower;
mod switches;
mod tables;

pub use herd::wide;
pub use random::{Draws, drawn, strike};

use super::figure::Figure;
use super::ground::{Ground, Unrun};

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name, as `C5`.
    pub id: &'static str,
    /// Part of the core, which is run with every verification.
    pub core: bool,
    /// What is done.
    pub injected: &'static str,
    /// What is measured.
    pub figure: &'static str,
    /// What it must be.
    pub bar: &'static str,
    /// About how long it takes, s.
    pub seconds: u64,
    /// Runs it.
    pub run: fn(&Ground<'_>) -> Result<Vec<Figure>, Unrun>,
}

const fn row(
    id: &'static str,
    core: bool,
    [injected, figure, bar]: [&'static str; 3],
    seconds: u64,
    run: fn(&Ground<'_>) -> Result<Vec<Figure>, Unrun>,
) -> Row {
    Row { id, core, injected, figure, bar, seconds, run }
}

/// In the order of the table.
pub const ROWS: &[Row] = &[
    row(
        "C1",
        true,
        [
            "`kill -9` of `sluiced` with 1, 64, 512 flows, each at its floor, on 100 Mbit/s and on 1 Gbit/s; of brain, helper and both of a split one",
            "flows that an acknowledgement did not give back; until a flow is under plain TCP, p99 and last; longest silence of a flow; their rate from 400 ms on",
            "0; ≤ 250 ms, ≤ 400 ms, or three slots and what the same flows wait for an acknowledgement under plain TCP; two segments at the floor + 20 ms, or what they show under plain TCP; ≥ 95 % of that under plain TCP",
        ],
        140,
        release::killed,
    ),
    row(
        "C2",
        true,
        [
            "SIGSTOP of `sluiced`; of the brain and of the helper of a split one",
            "as C1; flows managed while a helper stands, and their rate",
            "as C1; all, ≥ 95 % of that before",
        ],
        100,
        release::stopped,
    ),
    row(
        "C3",
        true,
        [
            "the thread that decides is stopped, as a debugger does; the process lives and answers",
            "as C1; does it answer `/metrics`",
            "as C1; yes",
        ],
        80,
        release::wedged,
    ),
    row(
        "C4",
        false,
        [
            "`kill -9` while pins and name are gone; while the flows' earlier congestion control is unregistered; while the job's cgroup is gone",
            "as C1",
            "as C1",
        ],
        40,
        release::without_ground,
    ),
    row(
        "C5",
        true,
        [
            "host and switch do not hear each other for 3 s: both ways, each way alone, half of all packets, answers 500 ms late; both ways beside flows of another host, of which only the switch tells; then healed",
            "what each flow keeps of what is planned for it in the first two slots, or at the first look after them; largest step of that, a slot; looks at which the view is not fresh; flows managed; until fresh after the heal; silence; beside others: what they leave before, flows that are given back over trips of the loss guard",
            "≥ 0.9; ≤ 2, or up to an equal share; ≥ 1, but where half of all packets are lost; all; ≤ 2 slots + 5 s; as P-2; ≤ 0.75 of an equal share, ≤ 1",
        ],
        90,
        partition::cut,
    ),
    row(
        "C6",
        true,
        [
            "the switch is killed, or ended in order, every 2 s for 30 s",
            "mean iteration over plain TCP; kills meanwhile; looks at which a link is promised more than it carries, from two slots after each restart",
            "≤ 1.10; ≥ half of them; shown",
        ],
        100,
        switches::restarts,
    ),
    row(
        "C7",
        false,
        [
            "one of two switches answers after 5 s, reads nothing, or sends a byte a second",
            "p99 of a decision of a host that talks to both, over that without, by turns; its decisions at slots' edges over those without; looks at which that switch is fresh; looks at which the other is not",
            "≤ 1.10; ≥ 0.9; ≤ half; ≤ 1 %, or as many as without",
        ],
        160,
        switches::slow,
    ),
    row(
        "C8",
        false,
        [
            "the switch's cable is taken away, then its process: no FIN",
            "until its view is not fresh; until the connection is closed",
            "3 slots; 2 s and a slot",
        ],
        25,
        half_open::half_open,
    ),
    row(
        "C9",
        true,
        [
            "one host's clock: +37 s, −5 s, a slot forward and back, nine forward, 200 ppm for 20 s, frozen for 10 s; a clock that nobody disciplines",
            "times that the daemon takes it over; slots smaller than one before; until the step is counted, and until all switches are heard again; least 10 ms over the rate before; silence",
            "≥ half of those that it is set; 0; ≤ 2 slots, ≤ 2 s; ≥ 0.5; as P-2",
        ],
        110,
        clock::wrong,
    ),
    row(
        "C10",
        true,
        [
            "20 restarts in order and 20 by crash, under load",
            "least 10 ms over the rate before; silence; flows lost; flows with two rows",
            "≥ 0.5; ≤ 20 ms; 0; 0",
        ],
        200,
        restart::restarts,
    ),
    row(
        "C11",
        false,
        [
            "hosts and switches of two builds (`--old DIR`), and a host that goes to the other and back under load",
            "who hears whom; as C10, or with another version of the kernel interface the time in plain TCP",
            "all; as C10; ≤ 1 s",
        ],
        60,
        restart::builds,
    ),
    row(
        "C12",
        true,
        [
            "six inputs that the daemon panics of",
            "its mode, its condition, its flows; `sluice status --check`",
            "bypass, `restart-loop`, plain; exit 3 and the reason",
        ],
        30,
        restart::crash_loop,
    ),
    row(
        "C13",
        true,
        [
            "4096 rows taken and 200 flows more; then the peers of 500 vanish",
            "rows in use; flows that do not move within ten seconds, median of five counts; until the orphans' rows are free",
            "≤ 4096; the most of five counts under plain TCP; ≤ 60 s of silence and a look",
        ],
        230,
        tables::full,
    ),
    row(
        "C14",
        false,
        [
            "daemons and a switch that believe links to carry twice what they do, 8 flows, 250 kB of queue",
            "retransmits over cubic's, which must have some; iteration over cubic's; orders over what the path carries",
            "≤ 5, cubic's ≥ 20; ≤ 1.10; ≥ 1.5",
        ],
        50,
        tables::twice,
    ),
    row(
        "C15",
        false,
        [
            "cgroup removed and made again; namespaces deleted with processes and with orphans in them; interface down and up, renamed",
            "what the daemon holds more than before after 70 s; silence",
            "0 descriptors, namespaces, threads, rows",
        ],
        150,
        environment::comes_and_goes,
    ),
    row(
        "C16",
        true,
        [
            "`sluiced cleanup` under load, beside a daemon and after a dead one",
            "settings changed before; pins, names, settings left; until all flows are plain; their rate from 1 s on",
            "≥ 1; 0; ≤ 1 s; ≥ 95 % of that under plain TCP",
        ],
        50,
        off::cleanups,
    ),
    row(
        "C17",
        false,
        [
            "run directory full and read-only, log disk full, page directory removed, bpffs unmounted, output closed",
            "late at an edge, p99; flows managed; silence",
            "unchanged; all; as P-2",
        ],
        80,
        environment::directories,
    ),
    row(
        "C18",
        false,
        [
            "an application sets its own congestion control and ceiling on managed sockets in a loop",
            "settings that are undone; flows that the daemon lets go of; rate of the one with a ceiling over that",
            "0; the one whose congestion control was changed, with `foreign-change`; ≤ 1.05",
        ],
        25,
        tables::foreign,
    ),
    row(
        "C19",
        false,
        [
            "a host with another slot length, horizon, clock, cluster; a file with ten times the capacity",
            "values named in the refusal; flows of others; a warning with both speeds",
            "both; untouched; there",
        ],
        90,
        operator::mistaken,
    ),
    row(
        "C20",
        false,
        [
            "30 faults, drawn by `--seed` from those of C1 to C3, C5, C6, C9, C10 and C15, over `--minutes` (10)",
            "until flows are plain that have to be; silence; until all is as before; flows managed; descriptors more than at first",
            "as C1; as P-2; ≤ 10 s; all; ≤ 4",
        ],
        600,
        random::faults,
    ),
    row(
        "L1",
        false,
        [
            "1000 simulated hosts of 8 flows on 2 links each against `sluice-switch`, for `--minutes`",
            "missed slots; p99 of the exchange; memory, and its growth; processor time per host and slot",
            "≤ 1 %; ≤ 60 ms; ≤ 128 MiB, and ≤ 1 MiB in 10 minutes; ≤ 60 µs",
        ],
        600,
        load::many_hosts,
    ),
    row(
        "L2",
        false,
        [
            "the switch goes and returns for 50 hosts with real daemons at once, 5 times",
            "hosts that notice that it is gone; until 99 % of them are fresh; looks at which one that was back is not; memory of the switch",
            "all; ≤ 5 s; ≤ 1 %; ≤ 128 MiB",
        ],
        120,
        herd::herd,
    ),
    row(
        "L3",
        false,
        [
            "one host floods the switch with connections and bytes that mean nothing beside 3 hosts with real daemons, 20 s",
            "looks at which an honest host has no fresh view; p99 of its exchange over that before; its exchanges in a slot over those before",
            "≤ 1 %; ≤ 2; ≥ 0.9",
        ],
        45,
        load::flood,
    ),
    row(
        "L4",
        false,
        [
            "one host with 4096 flows, and 100 connections opened and closed a second, for `--minutes`",
            "p99 of a decision; late slots; orders that run out; processor time; memory; flows managed",
            "≤ 5 ms; 0; 0; ≤ 0.25 of a core; ≤ 64 MiB; ≥ three quarters",
        ],
        600,
        load::many_flows,
    ),
    row(
        "L5",
        false,
        [
            "a planner on a topology of 20,000 edges, and on one above the limit",
            "time; memory; the refusal",
            "≤ 600 s; ≤ 4 GiB; names the limit",
        ],
        120,
        load::planner,
    ),
    row(
        "B1",
        false,
        [
            "ring, parameter servers, tree, mixed, of 1 and 3 jobs, without fault, without switch, restart storm, crash loop, 1 % loss; with and without Sluice by turns",
            "mean iteration over that without, upper end of its 95 % interval; times that the trouble comes",
            "alone 1.02, mean over jobs 1.00, each 1.25; one component down 1.05; faults that keep happening 1.10; ≥ half of those planned",
        ],
        480,
        slower::benefit,
    ),
    row(
        "B2",
        false,
        [
            "one CUBIC flow beside managed flows",
            "its rate over that beside one CUBIC flow, of one and of four managed ones",
            "≥ 0.9; of four ≥ 0.9 of an equal share",
        ],
        160,
        slower::beside_cubic,
    ),
    row(
        "R1",
        false,
        [
            "more flows of one user than its quota",
            "rows that it gets; its flows that are managed; flows that do not move; another user's row",
            "the quota; nine tenths of it; 0; one",
        ],
        40,
        exhaustion::quota,
    ),
    row(
        "R2",
        false,
        [
            "64 descriptors, little address space, 48 MiB of memory, 16 processes: at the start and under load",
            "flows that do not move; silence",
            "0; as P-2",
        ],
        90,
        exhaustion::limits,
    ),
    row(
        "R3",
        false,
        [
            "a directory of pages with 8192 hostile entries and 1000 renames a second",
            "late at an edge, p99; flows managed",
            "as before and 5 ms; all",
        ],
        40,
        exhaustion::hostile_directory,
    ),
    row(
        "R4",
        false,
        ["8 spinning processes and a scrape loop for 60 s", "orders that ran out", "0"],
        75,
        exhaustion::burnt,
    ),
];

/// The row with this name, in any case.
pub fn named(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_and_core_rows_fit_their_time() {
        let ids: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), ROWS.len());
        assert!((1..=20).all(|n| named(&format!("c{n}")).is_some()));
        assert!(named("C21").is_none());
        let core: u64 = ROWS.iter().filter(|row| row.core).map(|row| row.seconds).sum();
        assert!(core <= 20 * 60, "{core} s");
    }
}
