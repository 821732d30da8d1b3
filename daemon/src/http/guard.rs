//! Who may ask for what.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::uri::Authority;

use crate::config::{Config, Details};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Tcp(SocketAddr),
    /// Over the Unix socket, with the credentials the kernel vouches for.
    Unix {
        uid: u32,
        gid: u32,
        /// The process, where the kernel tells it.
        pid: Option<i32>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Whom the API answers.
    pub details: Details,
    /// Host names that may stand in the `Host` header beside loopback names.
    pub hosts: Vec<String>,
    /// Members may give commands.
    pub control_group: Option<String>,
    /// The daemon's own user; may give commands.
    pub own_uid: u32,
}

impl Rules {
    /// What the configuration says of it, for the process that asks.
    pub fn of(config: &Config) -> Rules {
        let mut hosts = vec![config.node.name.clone()];
        hosts.extend(config.http.listen.iter().map(|address| address.ip().to_string()));
        Rules {
            details: config.http.details,
            hosts,
            control_group: Some(config.control.group.clone()).filter(|group| !group.is_empty()),
            own_uid: nix::unistd::geteuid().as_raw(),
        }
    }

    /// May this caller read the API and the page? Where operators may, it asks who is one.
    pub fn may_read_details(&self, caller: Caller) -> bool {
        match (self.details, caller) {
            (Details::Operators, _) => self.may_command(caller),
            (Details::All, _) | (Details::Loopback, Caller::Unix { .. }) => true,
            (Details::Loopback, Caller::Tcp(from)) => loopback(from.ip()),
        }
    }

    /// Whom details are for, and what somebody else can do.
    pub fn refused_details(&self) -> (&'static str, String) {
        match self.details {
            Details::Operators => ("details are answered to operators only, on the Unix socket", self.how_to_command()),
            Details::Loopback | Details::All => {
                let help = "set http.details = \"all\" to open them";
                ("details are answered on loopback and on the Unix socket only", help.into())
            }
        }
    }

    /// What somebody can do who may give no commands.
    pub fn how_to_command(&self) -> String {
        let group = self.control_group.as_deref().unwrap_or("sluice");
        format!("run it as root, or join the group `{group}` (control.group)")
    }

    /// May this caller give commands? Asks the system who is in the group, which may take a while.
    pub fn may_command(&self, caller: Caller) -> bool {
        match caller {
            Caller::Tcp(_) => false,
            Caller::Unix { uid, gid, .. } => self.is_own(caller) || self.in_control_group(uid, gid),
        }
    }

    /// Is this the administrator, or the daemon's own user?
    pub const fn is_own(&self, caller: Caller) -> bool {
        matches!(caller, Caller::Unix { uid, .. } if uid == 0 || uid == self.own_uid)
    }

    /// Is this `Host` header one of ours? A name that an attacker's DNS points at loopback is not.
    pub fn host_is_ours(&self, header: Option<&str>) -> bool {
        let Some(authority) = header.and_then(|text| Authority::from_str(text).ok()) else { return false };
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || bare.parse().is_ok_and(loopback)
            || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(bare))
    }

    fn in_control_group(&self, uid: u32, gid: u32) -> bool {
        let Some(name) = self.control_group.as_deref() else { return false };
        let Ok(Some(group)) = nix::unistd::Group::from_name(name) else { return false };
        if group.gid.as_raw() == gid {
            return true;
        }
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
        user.is_some_and(|user| user.gid == group.gid || group.mem.contains(&user.name))
    }
}

fn loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_must_name_this_host() {
        let rules = Rules { hosts: vec!["gpu-17".into(), "10.0.0.7".into()], ..Rules::default() };
        for good in ["localhost", "localhost:9605", "127.0.0.1:9605", "[::1]:9605", "GPU-17:9605", "10.0.0.7"] {
            assert!(rules.host_is_ours(Some(good)), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.8", "", "a b"] {
            assert!(!rules.host_is_ours(Some(bad)), "{bad}");
        }
        assert!(!rules.host_is_ours(None));
    }

    #[test]
    fn only_the_unix_socket_takes_commands_and_only_from_its_own() {
        let rules = Rules { own_uid: 990, control_group: Some("no-such-group".into()), ..Rules::default() };
        let near = Caller::Tcp(SocketAddr::from(([127, 0, 0, 1], 5)));
        let far = Caller::Tcp(SocketAddr::from(([10, 0, 0, 1], 5)));
        assert!(rules.may_read_details(near) && !rules.may_command(near));
        assert!(!rules.may_read_details(far));
        assert!(Rules { details: Details::All, ..rules.clone() }.may_read_details(far));
        let user = |uid| Caller::Unix { uid, gid: uid, pid: Some(7) };
        assert!(rules.may_command(user(0)));
        assert!(rules.may_command(user(990)));
        assert!(!rules.may_command(user(1000)) && rules.may_read_details(user(1000)));
        let closed = Rules { details: Details::Operators, ..rules };
        assert!(closed.may_read_details(user(0)) && closed.may_read_details(user(990)));
        assert!(!closed.may_read_details(user(1000)) && !closed.may_read_details(near));
    }
}
