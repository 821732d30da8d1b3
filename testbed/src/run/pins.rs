//! The daemons' instance names, and removing what daemons of a run leave in the kernel.
//!
//! A daemon keeps its pins when it ends, for its successor. A run has no successor, and a killed run cannot clean up:
//! so names carry the process id of the run, and each run removes what dead ones left.

use std::path::Path;

use sluice_ebpf::Options;
use sluice_ebpf::cleanup::{cleanup, instances};

/// The suffix of one daemon's congestion control and pins: `t`, this process in base 36, the host in two digits; at
/// most 8 letters and digits.
pub fn instance(host: usize) -> String {
    format!("t{}{:0>2}", base36(std::process::id()), base36(host as u32))
}

/// Removes the pins of this process's daemons on the first `hosts` hosts.
pub fn remove_own(hosts: usize) {
    for host in 0..hosts {
        remove(instance(host));
    }
}

/// Removes the pins of runs whose process is gone. Returns how many daemons had left some.
pub fn remove_leftovers() -> usize {
    let root = Options::default().pin_root;
    let dead = |name: &String| owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    instances(&root).into_iter().filter(dead).map(remove).count()
}

/// Is this the instance of a daemon that this process started?
pub(crate) fn is_own(instance: &str) -> bool {
    owner(instance) == Some(std::process::id())
}

fn remove(instance: String) {
    let report = cleanup(&Options { instance, ..Options::default() });
    for left in report.left {
        tracing::debug!("pins of a daemon: {left}");
    }
}

/// The process id in an instance's name; `None`: not one of a run.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix('t')?;
    let digits = rest.get(..rest.len().checked_sub(2)?)?;
    u32::from_str_radix(digits, 36).ok().filter(|_| !digits.is_empty() && !digits.starts_with('+'))
}

fn base36(mut n: u32) -> String {
    let mut text = Vec::new();
    loop {
        text.push(char::from_digit(n % 36, 36).unwrap_or('0'));
        n /= 36;
        if n == 0 {
            break;
        }
    }
    text.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        let name = instance(63);
        assert!(name.len() <= 8, "{name}");
        assert_eq!(owner(&name), Some(std::process::id()));
        assert_eq!(format!("t{}1r", base36(4_194_304)).len(), 8);
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in ["", "t", "t0", "prod", "x12300", "t+1200", "té00"] {
            assert_eq!(owner(name), None, "{name:?}");
        }
    }
}
