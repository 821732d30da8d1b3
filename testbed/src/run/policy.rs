//! The names behind `--policy` on the testbed.

use std::fmt;
use std::str::FromStr;

use super::RunError;

const ALLOWED: &str = "fair, fair:cubic, fair:reno, fair:bbr, fair:mltcp, sluice, sluice:srpt-p, \
                       sluice:primal-dual, sluice:primal-dual-literal, sluice:fair, and each sluice with @nic";

/// Who shares the network, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// TCP with this congestion control and no daemon; `None`: the scenario's. `mltcp` is registered for the run.
    Fair(Option<String>),
    /// Sluice, with a daemon on every host.
    Sluice {
        /// `schedule.policy` of the daemons; `None`: their default.
        policy: Option<String>,
        /// True: no switch keeps tables, hosts keep them for their own links.
        nic: bool,
    },
}

impl Policy {
    /// The name as part of a file name.
    pub fn file_part(&self) -> String {
        self.to_string().replace([':', '@'], "-")
    }
}

impl FromStr for Policy {
    type Err = RunError;

    fn from_str(text: &str) -> Result<Policy, RunError> {
        let (name, nic) = match text.strip_suffix("@nic") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let (name, option) = match name.split_once(':') {
            Some((name, option)) => (name, Some(option)),
            None => (name, None),
        };
        let option = option.map(str::to_owned);
        match (name, option.as_deref(), nic) {
            ("fair", None | Some("cubic" | "reno" | "bbr" | "mltcp"), false) => Ok(Policy::Fair(option)),
            ("sluice", None | Some("srpt-p" | "primal-dual" | "primal-dual-literal" | "fair"), _) => {
                Ok(Policy::Sluice { policy: option, nic })
            }
            _ => Err(RunError::Policy { seen: text.into(), allowed: ALLOWED }),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, option, nic) = match self {
            Policy::Fair(tcp) => ("fair", tcp, &false),
            Policy::Sluice { policy, nic } => ("sluice", policy, nic),
        };
        write!(f, "{name}")?;
        if let Some(option) = option {
            write!(f, ":{option}")?;
        }
        if *nic { write!(f, "@nic") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in [
            "fair",
            "fair:bbr",
            "fair:mltcp",
            "sluice",
            "sluice:primal-dual",
            "sluice:primal-dual-literal",
            "sluice@nic",
            "sluice:srpt-p@nic",
        ] {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn other_names_are_refused_with_the_list() {
        for name in ["", "fair:vegas", "fair@nic", "mcs", "sluice:", "sluice:x"] {
            let said = name.parse::<Policy>().unwrap_err().to_string();
            assert!(said.contains("fair:cubic"), "{said}");
        }
    }
}
