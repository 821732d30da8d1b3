//! The filters of system calls that a unit asks for, as systemd 252 makes them: one for each directive, all in force at once.
//!
//! Which calls a group such as `@system-service` has is asked of `systemd-analyze`, so that it is systemd's own list. Names
//! that this machine's architecture does not have are left out, as systemd leaves them out.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::str::FromStr as _;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use syscalls::Sysno;

use crate::unit::Unit;

/// The kinds of namespaces, by their words and their flags in clone(2).
pub const NAMESPACES: [(&str, i32); 8] = [
    ("cgroup", libc::CLONE_NEWCGROUP),
    ("ipc", libc::CLONE_NEWIPC),
    ("mnt", libc::CLONE_NEWNS),
    ("net", libc::CLONE_NEWNET),
    ("pid", libc::CLONE_NEWPID),
    ("user", libc::CLONE_NEWUSER),
    ("uts", libc::CLONE_NEWUTS),
    ("time", 0x80),
];
/// How deep groups may name groups.
const DEPTH: usize = 8;
/// Set-user-ID and set-group-ID.
const SUID_SGID: [u64; 2] = [0o4000, 0o2000];

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A group of which nobody knows what it has.
    #[error("SystemCallFilter: {group}: {why}; install systemd, whose systemd-analyze lists the calls of a group")]
    Group {
        /// The group.
        group: String,
        /// What was tried and how it ended.
        why: String,
    },
    /// A word that is no system call of any architecture that systemd knows.
    #[error("SystemCallFilter: {0:?} is no system call")]
    Call(String),
    /// A word that is no kind of namespace, or no family of addresses.
    #[error("{key}: {seen:?}: one of {allowed}")]
    Word {
        /// The directive.
        key: &'static str,
        /// The word.
        seen: String,
        /// What there is.
        allowed: String,
    },
    /// What seccompiler says.
    #[error("making a filter: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// An architecture that seccompiler does not know.
    #[error("no filters on {}", std::env::consts::ARCH)]
    Architecture,
}

/// The filters of a unit, ready to be applied one after the other.
///
/// # Errors
/// [`FilterError`].
pub fn all(unit: &Unit) -> Result<Vec<BpfProgram>, FilterError> {
    let (mut filters, groups) = (Vec::new(), Groups::ask()?);
    // The list comes last: loading the others takes calls that it may not have.
    if unit.yes("LockPersonality") {
        let locked = vec![rule(vec![when(0, SeccompCmpOp::Ne, 0)?])?];
        filters.push(refuse(libc::EPERM, BTreeMap::from([(Sysno::personality.id().into(), locked)]))?);
    }
    if unit.yes("MemoryDenyWriteExecute") {
        filters.push(refuse(libc::EPERM, writable_code()?)?);
    }
    if unit.yes("RestrictSUIDSGID") {
        filters.push(refuse(libc::EPERM, privileged_files()?)?);
        // Its flags lie in memory, where no filter looks: programs take openat instead.
        filters.push(refuse(libc::ENOSYS, calls([Sysno::openat2]))?);
    }
    if let Some(rules) = namespaces(unit)? {
        filters.push(refuse(libc::EPERM, rules)?);
        // The same.
        filters.push(refuse(libc::ENOSYS, calls([Sysno::clone3]))?);
    }
    if !unit.all("Service", "RestrictAddressFamilies").is_empty() {
        filters.push(refuse(libc::EAFNOSUPPORT, families(unit)?)?);
    }
    if unit.yes("ProtectHostname") {
        filters.push(refuse(libc::EPERM, calls([Sysno::sethostname, Sysno::setdomainname]))?);
    }
    if unit.yes("ProtectKernelLogs") {
        filters.push(refuse(libc::EPERM, calls([Sysno::syslog]))?);
    }
    if unit.yes("ProtectKernelModules") {
        let modules = [Sysno::init_module, Sysno::finit_module, Sysno::delete_module];
        filters.push(refuse(libc::EPERM, calls(modules))?);
    }
    if unit.yes("PrivateDevices") {
        let raw = known(&groups.calls("@raw-io")?)?;
        filters.push(refuse(libc::EPERM, raw.into_iter().map(|call| (call, Vec::new())).collect())?);
    }
    let list = unit.all("Service", "SystemCallFilter");
    if !list.is_empty() {
        filters.push(allow(known(&listed(list, |name| groups.calls(name))?)?)?);
    }
    Ok(filters)
}

/// The names that lines of `SystemCallFilter` allow: the first says which there are, and further ones add to it or, with
/// `~`, take away.
///
/// # Errors
/// Whatever `group` does not know.
pub fn listed(
    lines: &[String],
    group: impl Fn(&str) -> Result<BTreeSet<String>, FilterError>,
) -> Result<BTreeSet<String>, FilterError> {
    // systemd itself always allows these.
    let mut allowed = group("@default")?;
    for line in lines {
        let (words, add) = line.strip_prefix('~').map_or((line.as_str(), true), |rest| (rest, false));
        for word in words.split_whitespace() {
            let names = if word.starts_with('@') { group(word)? } else { BTreeSet::from([word.to_owned()]) };
            if add {
                allowed.extend(names);
            } else {
                allowed.retain(|name| !names.contains(name));
            }
        }
    }
    Ok(allowed)
}

/// The groups of system calls that systemd knows, each with what stands in it: calls and groups.
#[derive(Debug, Default)]
struct Groups(BTreeMap<String, Vec<String>>);

impl Groups {
    fn ask() -> Result<Groups, FilterError> {
        let failed = |why: String| FilterError::Group { group: "@default".into(), why };
        let said = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager"]).output();
        let said = said.map_err(|e| failed(format!("systemd-analyze cannot be started: {e}")))?;
        if !said.status.success() {
            return Err(failed(String::from_utf8_lossy(&said.stderr).trim().to_owned()));
        }
        Ok(Groups::read(&String::from_utf8_lossy(&said.stdout)))
    }

    /// A name, and below it, indented, a comment and a call or a group a line.
    fn read(text: &str) -> Groups {
        let (mut groups, mut name) = (Groups::default(), String::new());
        for line in text.lines() {
            match (line.starts_with('@'), line.trim()) {
                (true, _) => name = line.trim().to_owned(),
                (false, word) if word.is_empty() || word.starts_with('#') || !line.starts_with(' ') => {}
                (false, word) => groups.0.entry(name.clone()).or_default().push(word.to_owned()),
            }
        }
        groups
    }

    /// The calls of a group, with those of the groups in it.
    fn calls(&self, name: &str) -> Result<BTreeSet<String>, FilterError> {
        let mut names = BTreeSet::new();
        self.collect(name, DEPTH, &mut names)?;
        Ok(names)
    }

    fn collect(&self, name: &str, depth: usize, names: &mut BTreeSet<String>) -> Result<(), FilterError> {
        let failed = |why: &str| FilterError::Group { group: name.to_owned(), why: why.to_owned() };
        if depth == 0 {
            return Err(failed("it is in itself"));
        }
        for word in self.0.get(name).ok_or_else(|| failed("systemd-analyze does not list it"))? {
            if word.starts_with('@') {
                self.collect(word, depth - 1, names)?;
            } else {
                names.insert(word.clone());
            }
        }
        Ok(())
    }
}

/// The numbers of those names that this architecture has.
fn known(names: &BTreeSet<String>) -> Result<BTreeSet<i64>, FilterError> {
    // What has no number here must at least be one of systemd's names.
    let strange = |name: &&String| !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    match names.iter().find(strange) {
        Some(name) => Err(FilterError::Call(name.clone())),
        None => Ok(names.iter().filter_map(|name| Sysno::from_str(name).ok()).map(|call| call.id().into()).collect()),
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn calls<const N: usize>(calls: [Sysno; N]) -> Rules {
    calls.into_iter().map(|call| (call.id().into(), Vec::new())).collect()
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, FilterError> {
    Ok(SeccompRule::new(conditions)?)
}

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, FilterError> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)?)
}

/// All of these bits are set.
fn has(argument: u8, bits: u64) -> Result<SeccompCondition, FilterError> {
    when(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

fn refuse(errno: i32, rules: Rules) -> Result<BpfProgram, FilterError> {
    compile(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()))
}

fn allow(numbers: BTreeSet<i64>) -> Result<BpfProgram, FilterError> {
    let rules = numbers.into_iter().map(|number| (number, Vec::new())).collect();
    compile(rules, SeccompAction::Errno(libc::EPERM.unsigned_abs()), SeccompAction::Allow)
}

fn compile(rules: Rules, otherwise: SeccompAction, then: SeccompAction) -> Result<BpfProgram, FilterError> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|_| FilterError::Architecture)?;
    Ok(SeccompFilter::new(rules, otherwise, then, architecture)?.try_into()?)
}

/// Memory that can be written and run, or becomes runnable.
fn writable_code() -> Result<Rules, FilterError> {
    let (write, execute) = (u64::from(libc::PROT_WRITE.unsigned_abs()), u64::from(libc::PROT_EXEC.unsigned_abs()));
    let shm_exec = 0o100_000;
    Ok(BTreeMap::from([
        (Sysno::mmap.id().into(), vec![rule(vec![has(2, write | execute)?])?]),
        (Sysno::mprotect.id().into(), vec![rule(vec![has(2, execute)?])?]),
        (Sysno::pkey_mprotect.id().into(), vec![rule(vec![has(2, execute)?])?]),
        (Sysno::shmat.id().into(), vec![rule(vec![has(2, shm_exec)?])?]),
    ]))
}

/// Files that run as their owner.
fn privileged_files() -> Result<Rules, FilterError> {
    let create: u64 = libc::O_CREAT.unsigned_abs().into();
    let mut rules = Rules::new();
    // Which argument the mode is, and which the flags, where it counts only when a file is made.
    for (call, mode, flags) in [
        (Sysno::chmod, 1, None),
        (Sysno::fchmod, 1, None),
        (Sysno::fchmodat, 2, None),
        (Sysno::mkdir, 1, None),
        (Sysno::mkdirat, 2, None),
        (Sysno::mknod, 1, None),
        (Sysno::mknodat, 2, None),
        (Sysno::creat, 1, None),
        (Sysno::open, 2, Some(1)),
        (Sysno::openat, 3, Some(2)),
    ] {
        for bit in SUID_SGID {
            let mut conditions = vec![has(mode, bit)?];
            if let Some(flags) = flags {
                conditions.push(has(flags, create)?);
            }
            rules.entry(call.id().into()).or_default().push(rule(conditions)?);
        }
    }
    Ok(rules)
}

/// Namespaces that may be neither made nor entered; `None`: all may.
fn namespaces(unit: &Unit) -> Result<Option<Rules>, FilterError> {
    let words: Vec<&str> = unit.words("RestrictNamespaces").collect();
    if words.is_empty() || words == ["no"] {
        return Ok(None);
    }
    if let Some(seen) = words.iter().find(|word| **word != "yes" && NAMESPACES.iter().all(|(name, _)| name != *word)) {
        let allowed = NAMESPACES.map(|(name, _)| name).join(", ");
        return Err(FilterError::Word { key: "RestrictNamespaces", seen: (*seen).to_owned(), allowed });
    }
    let mut rules = Rules::new();
    let mut add = |call: Sysno, rule| rules.entry(call.id().into()).or_default().push(rule);
    // setns(fd, 0) takes whatever the descriptor is.
    add(Sysno::setns, rule(vec![when(1, SeccompCmpOp::Eq, 0)?])?);
    for (_, flag) in NAMESPACES.iter().filter(|(name, _)| !words.contains(name)) {
        let bits = flag.unsigned_abs().into();
        add(Sysno::unshare, rule(vec![has(0, bits)?])?);
        add(Sysno::clone, rule(vec![has(0, bits)?])?);
        add(Sysno::setns, rule(vec![has(1, bits)?])?);
    }
    Ok(Some(rules))
}

/// Sockets of other families than these.
fn families(unit: &Unit) -> Result<Rules, FilterError> {
    const KNOWN: [(&str, i32); 5] = [
        ("AF_UNIX", libc::AF_UNIX),
        ("AF_INET", libc::AF_INET),
        ("AF_INET6", libc::AF_INET6),
        ("AF_NETLINK", libc::AF_NETLINK),
        ("AF_PACKET", libc::AF_PACKET),
    ];
    let mut conditions = Vec::new();
    for word in unit.words("RestrictAddressFamilies") {
        let family = KNOWN.iter().find(|(name, _)| *name == word).map(|(_, family)| family.unsigned_abs());
        let family = family.ok_or_else(|| FilterError::Word {
            key: "RestrictAddressFamilies",
            seen: word.to_owned(),
            allowed: KNOWN.map(|(name, _)| name).join(", "),
        })?;
        conditions.push(when(0, SeccompCmpOp::Ne, family.into())?);
    }
    Ok(BTreeMap::from([(Sysno::socket.id().into(), vec![rule(conditions)?])]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toy(name: &str) -> Result<BTreeSet<String>, FilterError> {
        let calls: &[&str] = match name {
            "@default" => &["execve", "exit"],
            "@service" => &["read", "chown", "setuid"],
            "@privileged" => &["chown", "setuid", "bpf"],
            _ => return Err(FilterError::Group { group: name.to_owned(), why: "no such group".into() }),
        };
        Ok(calls.iter().map(|call| (*call).to_owned()).collect())
    }

    #[test]
    fn groups_have_calls_and_groups() {
        let text = "@a\n    # Some\n    @b\n    read\n\n@b\n    # More\n    write\n\n@c\n    @c\n\n# Not listed\n";
        let groups = Groups::read(text);
        assert_eq!(groups.calls("@a").expect("known").into_iter().collect::<Vec<_>>(), ["read", "write"]);
        for name in ["@c", "@d"] {
            assert!(matches!(groups.calls(name), Err(FilterError::Group { .. })), "{name}");
        }
    }

    #[test]
    fn later_lines_take_away_and_add() {
        let lines = ["@service bpf", "~@privileged", "adjtimex bpf"].map(str::to_owned);
        let names = listed(&lines, toy).expect("known");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["adjtimex", "bpf", "execve", "exit", "read"]);
        assert!(listed(&["@other".to_owned()], toy).is_err());
    }

    #[test]
    fn names_of_other_architectures_are_left_out_and_no_names_are_refused() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(known(&names(&["read", "arm_fadvise64_64"])).expect("names").len(), 1);
        assert!(matches!(known(&names(&["READ"])), Err(FilterError::Call(_))));
    }

    #[test]
    fn words_that_are_no_namespaces_or_families_are_refused() {
        for text in ["RestrictNamespaces=net network", "RestrictAddressFamilies=AF_UNIX AF_BLUETOOTH"] {
            let mut unit = Unit::default();
            unit.add(std::path::Path::new("x"), &format!("[Service]\n{text}\n")).expect("a unit");
            assert!(matches!(all(&unit), Err(FilterError::Word { .. })), "{text}");
        }
    }
}
