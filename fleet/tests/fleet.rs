//! A fleet in virtual time: hosts, an etcd, two operators at a rollout, and everything between them that can fail.
//!
//! etcd goes away for up to a day and comes back, hosts are cut off from it, forget nothing over restarts, hear the same
//! twice, find their place in the history gone; operators' writes arrive late and overtake each other; jobs of some hosts
//! get slower once their host is active. Whatever the order, no host changes its mode but by a new word for its group or
//! by a hand on it.

use std::collections::BTreeMap;

use sluice_fleet::contact::Contact;
use sluice_fleet::judge::{self, Judge, Seen};
use sluice_fleet::key::{Key, Name, Space};
use sluice_fleet::rollout::{Order, Rollout, Status, Step, Turn};
use sluice_fleet::standing::Standing;
use sluice_fleet::value::ModeValue;
use sluice_fleet::view::{Heard, Raw, View};
use sluice_fleet::{Revision, UnixTime};
use sluice_wire::snapshot::{Benefit, BenefitState, Brief, BriefJob, FleetStatus, Label, Mode};
use std::time::Duration;

const SEEDS: u64 = 24;
const GROUPS: usize = 3;
const HOSTS: usize = 9;
/// Of trouble, and after it of peace.
const TROUBLE_S: u64 = 900;
const PEACE_S: u64 = 600;
const PAUSE_S: u64 = 60;
/// A bad job shows that it is slower so long after its host became active.
const SLOWER_AFTER_S: u64 = 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn space() -> Space {
    Space::new("/sluice", "train")
}

fn group(index: usize) -> Name {
    name(&format!("rack{index}"))
}

#[derive(Default)]
struct Etcd {
    history: Vec<(Key, String)>,
    compacted: u64,
    away: bool,
}

impl Etcd {
    fn revision(&self) -> u64 {
        self.history.len() as u64
    }
    fn get(&self, key: &Key) -> Option<(u64, &str)> {
        let at = self.history.iter().rposition(|(known, _)| known == key)?;
        Some((at as u64 + 1, &self.history[at].1))
    }
    fn mode(&self, group: &Name) -> Mode {
        let (_, text) = self.get(&Key::Mode(group.clone())).expect("every group has one");
        Mode::ALL.into_iter().find(|mode| text.contains(&format!("\"{}\"", mode.as_str()))).expect("a mode")
    }
    fn put(&mut self, key: Key, value: String) {
        self.history.push((key, value));
    }
    fn set_mode(&mut self, group: Name, mode: Mode) {
        self.put(Key::Mode(group), ModeValue { mode, note: String::new() }.write());
    }
    fn rollout(&self) -> (u64, Option<Rollout>) {
        match self.get(&Key::Rollout) {
            Some((revision, text)) => (revision, Some(Rollout::read(text.as_bytes()).expect("its own"))),
            None => (0, None),
        }
    }
    /// Writes a step, if nobody wrote the rollout since that revision.
    fn turn(&mut self, turn: &Turn, read_at: u64, now: UnixTime) -> bool {
        let (revision, before) = self.rollout();
        if revision != read_at {
            return false;
        }
        for (group, mode) in &turn.modes {
            self.set_mode(group.clone(), *mode);
        }
        self.put(Key::Rollout, turn.rollout.write());
        let after = &turn.rollout;
        if let Some(before) = before.filter(|before| !before.status.over()) {
            assert!(after.touched <= before.touched + 1, "one group at a time");
            if after.touched > before.touched && before.touched > 0 {
                let settled = before.settled_at.expect("all hosts of the group before followed");
                assert!(now.since(settled) >= Duration::from_secs(PAUSE_S), "the wait is kept");
            }
        }
        for stage in after.touched() {
            let wanted =
                if matches!(after.status, Status::Returned | Status::Aborted) { stage.earlier } else { after.order.to };
            assert_eq!(self.mode(&stage.group), wanted, "{:?}", after.status);
        }
        true
    }
    fn raw(&self, at: usize) -> Raw {
        let (key, value) = &self.history[at];
        let value = Some(value.clone().into_bytes());
        Raw { name: space().name(key), value, revision: Revision(at as u64 + 1) }
    }
    fn whole(&self) -> Heard {
        let mut last: BTreeMap<&Key, usize> = BTreeMap::new();
        last.extend(self.history.iter().enumerate().map(|(at, (key, _))| (key, at)));
        let keys = last.into_values().map(|at| self.raw(at)).collect();
        Heard::Whole { etcd: 7, revision: Revision(self.revision()), keys, more: false }
    }
}

struct Host {
    name: Name,
    group: Name,
    view: View,
    standing: Standing,
    contact: Contact,
    mode: Mode,
    active_since: u64,
    /// Up to where it has heard; `None`: it reads the whole first.
    at: Option<u64>,
    cut_until: u64,
    silent_until: u64,
    /// Its job is slower with Sluice.
    bad: bool,
}

impl Host {
    fn new(index: usize, bad: bool) -> Host {
        let group = group(index % GROUPS);
        Host {
            name: name(&format!("gpu-{index}")),
            view: View::new(space(), group.clone()),
            group,
            standing: Standing::default(),
            contact: Contact::new(Duration::ZERO),
            mode: Mode::Observe,
            active_since: 0,
            at: None,
            cut_until: 0,
            silent_until: 0,
            bad,
        }
    }
    fn set(&mut self, mode: Mode, now: u64) {
        if mode == Mode::Active && self.mode != Mode::Active {
            self.active_since = now;
        }
        self.mode = mode;
    }
    /// Hears what there is to hear.
    fn tick(&mut self, etcd: &Etcd, now: u64, random: &mut Random) {
        let before = self.mode;
        if etcd.away || now < self.cut_until {
            self.contact.lost("gone".into());
            self.at = None;
            // It may begin again meanwhile, from its file.
            if random.once_in(50)
                && let Some(kept) = self.view.write()
            {
                self.view = View::read(space(), self.group.clone(), kept.as_bytes(), "kept").expect("its own file");
                let by_hand = self.standing.by_hand();
                let mut standing = Standing::new(by_hand);
                let wanted = standing.heard(self.view.mode());
                if !by_hand {
                    assert_eq!(wanted, Some(before), "a restart without etcd begins as it ended");
                }
                self.standing = standing;
            }
            assert_eq!(self.mode, before);
            let silence = self.contact.silence(Duration::from_secs(now));
            assert_eq!(self.contact.told(Duration::from_secs(now)).is_some(), silence >= Duration::from_secs(60));
            return;
        }
        self.contact.heard(Duration::from_secs(now));
        let mut heard = match self.at {
            Some(at) if at >= etcd.compacted => {
                // Some of it a second time.
                let from = if random.once_in(3) { at.saturating_sub(random.below(4)) } else { at };
                let keys = (from as usize..etcd.history.len()).map(|at| etcd.raw(at)).collect();
                Heard::Changes { revision: Revision(etcd.revision()), keys }
            }
            _ => etcd.whole(),
        };
        if self.view.hear(heard).reread {
            heard = etcd.whole();
            assert!(!self.view.hear(heard).reread);
        }
        self.at = Some(etcd.revision());
        assert!(self.view.faults().is_empty(), "{:?}", self.view.faults());
        if let Some(mode) = self.standing.heard(self.view.mode()) {
            self.set(mode, now);
            assert_eq!(mode, etcd.mode(&self.group));
        }
        if self.standing.by_hand() {
            assert_eq!(self.mode, before, "a hand on the host wins");
        }
    }
    fn slower(&self, now: u64) -> bool {
        self.bad && self.mode == Mode::Active && now >= self.active_since + SLOWER_AFTER_S
    }
    fn seen(&self, now: u64) -> Seen {
        let (host, http) = (self.name.clone(), String::new());
        if now < self.silent_until {
            return Seen { host, http, answer: Err("timeout".into()) };
        }
        let state = if self.slower(now) { BenefitState::Released } else { BenefitState::Managed };
        let brief = Brief {
            mode: self.mode,
            jobs: vec![BriefJob { id: Label::new("j"), benefit: Benefit { state, ..Benefit::default() } }],
            fleet: Some(FleetStatus {
                group: self.group.to_string(),
                by_hand: self.standing.by_hand(),
                ..FleetStatus::default()
            }),
            ..Brief::default()
        };
        Seen { host, http, answer: Ok(Box::new(brief)) }
    }
}

/// An operator's terminal: what it writes arrives a while after it looked.
#[derive(Default)]
struct Driver {
    judge: Judge,
    pending: Option<(u64, Turn, u64)>,
    away_until: u64,
}

impl Driver {
    fn tick(&mut self, etcd: &mut Etcd, hosts: &[Host], now: u64, random: &mut Random) {
        if etcd.away || now < self.away_until {
            // What it wrote is lost, or was never sent.
            self.pending = None;
            return;
        }
        if let Some((due, turn, read_at)) = self.pending.take() {
            if now < due {
                self.pending = Some((due, turn, read_at));
            } else {
                etcd.turn(&turn, read_at, UnixTime(now));
            }
            return;
        }
        let (read_at, Some(rollout)) = etcd.rollout() else { return };
        let of = |group: &Name| hosts.iter().filter(|host| host.group == *group).map(|host| host.seen(now)).collect();
        let groups: BTreeMap<Name, Vec<Seen>> =
            rollout.stages.iter().map(|stage| (stage.group.clone(), of(&stage.group))).collect();
        let verdict = self.judge.look(&rollout, UnixTime(now), &groups, None);
        let next: Vec<Seen> = rollout.next().map(|stage| of(&stage.group)).unwrap_or_default();
        if let Step::Turn(turn) = rollout.step(UnixTime(now), &verdict, &judge::before(&next)) {
            let touches = turn.rollout.touched > rollout.touched;
            if touches && !judge::unready(&rollout.next().expect("it touches one").group, &next, 0).is_empty() {
                return;
            }
            self.pending = Some((now + random.below(4), *turn, read_at));
        }
    }
}

/// What came of one history.
#[derive(Debug, PartialEq)]
struct Outcome {
    status: Status,
    touched: usize,
    handled: bool,
}

fn story(seed: u64) -> Outcome {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut etcd = Etcd::default();
    (0..GROUPS).for_each(|index| etcd.set_mode(group(index), Mode::Observe));
    let bad = random.below(2 * HOSTS as u64) as usize;
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index, index == bad)).collect();
    let order = Order {
        to: Mode::Active,
        pause: Duration::from_secs(PAUSE_S),
        // No fault of the network alone lasts so long that it would end the rollout.
        patience: Duration::from_secs(100 * 86_400),
        unanswered: 0,
        by: "sim".into(),
        reason: String::new(),
    };
    let rollout = Rollout::new(order, (0..GROUPS).map(|i| (group(i), Mode::Observe)).collect(), UnixTime(0));
    assert!(etcd.turn(&Turn { rollout, modes: vec![] }, 0, UnixTime(0)));
    let mut drivers = [Driver::default(), Driver::default()];
    let (mut now, mut handled, mut aborts) = (0, false, false);
    for tick in 0..TROUBLE_S + PEACE_S {
        let peace = tick >= TROUBLE_S;
        // While etcd is away a day may pass at once.
        now += if etcd.away && random.once_in(40) { 86_400 } else { 1 };
        if peace {
            etcd.away = false;
        } else {
            if random.once_in(if etcd.away { 20 } else { 60 }) {
                etcd.away = !etcd.away;
            }
            if random.once_in(90) {
                etcd.compacted = etcd.revision();
            }
            let some = random.below(HOSTS as u64) as usize;
            if random.once_in(20) {
                hosts[some].cut_until = now + random.below(80);
            }
            if random.once_in(40) {
                hosts[some].silent_until = now + random.below(30);
            }
            if random.once_in(400) {
                let mode = Mode::ALL[random.below(3) as usize];
                hosts[some].standing.set_by_hand(false);
                hosts[some].set(mode, now);
                handled = true;
            }
            if random.once_in(60) {
                drivers[random.below(2) as usize].away_until = now + random.below(60);
            }
            if !etcd.away
                && random.once_in(150)
                && let (read_at, Some(rollout)) = etcd.rollout()
            {
                let turn = match random.below(8) {
                    0..4 => rollout.pause(UnixTime(now), "sim"),
                    4..7 => rollout.resume(UnixTime(now), "sim"),
                    _ => rollout.abort(UnixTime(now), "sim", false),
                };
                aborts |= turn.as_ref().is_some_and(|turn| turn.rollout.status == Status::Aborted);
                if let Some(turn) = turn {
                    assert!(etcd.turn(&turn, read_at, UnixTime(now)));
                }
            }
        }
        if tick == TROUBLE_S
            && let (read_at, Some(rollout)) = etcd.rollout()
            && let Some(turn) = rollout.resume(UnixTime(now), "sim")
        {
            assert!(etcd.turn(&turn, read_at, UnixTime(now)));
        }
        hosts.iter_mut().for_each(|host| host.tick(&etcd, now, &mut random));
        for driver in &mut drivers {
            driver.tick(&mut etcd, &hosts, now, &mut random);
        }
    }
    let rollout = etcd.rollout().1.expect("it began");
    assert!(rollout.status.over(), "in peace it ends: {rollout:?}");
    assert_eq!(rollout.status == Status::Aborted, aborts);
    for host in hosts.iter().filter(|host| !host.standing.by_hand()) {
        assert_eq!(host.mode, etcd.mode(&host.group), "in peace every host follows");
    }
    let bad = hosts.get(bad).filter(|host| !host.standing.by_hand());
    match rollout.status {
        Status::Done => assert!(bad.is_none(), "a job was made slower, and nobody returned"),
        Status::Returned => assert!(hosts.iter().any(|host| host.bad), "nothing was wrong: {rollout:?}"),
        _ => {}
    }
    Outcome { status: rollout.status, touched: rollout.touched, handled }
}

#[test]
fn no_host_changes_its_mode_by_itself_and_a_slower_job_brings_all_back() {
    let outcomes: Vec<Outcome> = (1..=SEEDS).map(story).collect();
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    // The stories that are to be told are among them.
    for status in [Status::Done, Status::Returned, Status::Aborted] {
        assert!(count(status) >= 1, "{status:?}: {outcomes:?}");
    }
    assert!(outcomes.iter().any(|outcome| outcome.status == Status::Returned && outcome.touched > 1));
    assert!(outcomes.iter().any(|outcome| outcome.handled));
}

#[test]
fn a_story_is_the_same_every_time() {
    assert_eq!(story(3), story(3));
}
