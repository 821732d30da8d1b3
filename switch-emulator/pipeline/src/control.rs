//! What a control plane writes, as statements: one for each table of the program, and a restart.
//!
//! As text it is one line each, which is how [`crate::vectors`] tells it:
//!
//! ```text
//! route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01
//! route 10.0.2.0/24 group 7 size 4 seed 99
//! member 7 0 via 2 02:00:00:00:02:01 02:00:00:00:00:02
//! edge 0 10.0.0.1/32
//! link 1 capacity 500 unit 0 signature 0xabcdef01
//! guard 1000
//! restart
//! ```

use std::fmt;
use std::str::FromStr;

use ipnet::Ipv4Net;
use sluice_schedule::Slot;

use crate::egress::Link;
use crate::routes::{Action, Group, Member, NextHop};
use crate::{PORTS, Switch};

/// One statement of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// An entry of `lpm`.
    Route(Ipv4Net, Action),
    /// An entry of `ecmp`.
    Member(Member, NextHop),
    /// An entry of `edge`: whose Sluice packets come in by a port.
    Edge(u16, Ipv4Net),
    /// An entry of `links`.
    Link(u16, Link),
    /// The default action of `guard`.
    Guard(Slot),
    /// All tables and registers are as at the start.
    Restart,
}

impl Statement {
    /// Does it to a switch whose Sluice packets come on this UDP port.
    pub fn apply(self, switch: &mut Switch) {
        match self {
            Statement::Route(to, action) => switch.set_route(to, action),
            Statement::Member(member, hop) => switch.set_member(member, Some(hop)),
            Statement::Edge(port, sources) => switch.set_edge(port, Some(sources)),
            Statement::Link(port, link) => switch.set_link(port, Some(link)),
            Statement::Guard(slot) => switch.set_guard(Some(slot)),
            Statement::Restart => *switch = Switch::new(switch.udp_port),
        }
    }
}

/// The statements of a text, one a line, with the number of the line from 1; `#` begins a remark.
pub fn statements(text: &str) -> impl Iterator<Item = (usize, Result<Statement, NoStatement>)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(at, line)| (at + 1, line.parse()))
}

/// Why a line is no statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStatement {
    /// The line begins with a word that nobody knows.
    #[error("`{0}` is no statement; allowed are route, member, edge, link, guard, restart")]
    Word(String),
    /// Something is wrong with an argument, or one is missing.
    #[error("{what} is `{value}`; allowed is {allowed}")]
    Argument {
        /// Which argument.
        what: &'static str,
        /// What it is; empty where the line ends.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
}

const ADDRESS: &str = "six bytes such as 02:00:00:00:00:01";
const NETWORK: &str = "a prefix such as 10.0.1.0/24";
const PORT: &str = "0 to 511";
const NUMBER: &str = "a number that fits";

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn read<T>(
        &mut self,
        what: &'static str,
        allowed: &'static str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Result<T, NoStatement> {
        let word = self.0.next().unwrap_or_default();
        parse(word).ok_or_else(|| NoStatement::Argument { what, value: word.into(), allowed })
    }

    fn number<T: TryFrom<u32>>(&mut self, what: &'static str) -> Result<T, NoStatement> {
        self.read(what, NUMBER, |word| number(word).and_then(|value| T::try_from(value).ok()))
    }

    fn network(&mut self, what: &'static str) -> Result<Ipv4Net, NoStatement> {
        self.read(what, NETWORK, |word| word.parse().ok())
    }

    fn port(&mut self) -> Result<u16, NoStatement> {
        self.read("the port", PORT, |word| word.parse().ok().filter(|port| *port < PORTS))
    }

    fn word(&mut self, expected: &'static str) -> Result<(), NoStatement> {
        self.read("the next word", expected, |word| (word == expected).then_some(()))
    }

    fn hop(&mut self) -> Result<NextHop, NoStatement> {
        let port = self.port()?;
        let destination = self.read("the next machine's address", ADDRESS, address)?;
        Ok(NextHop { port, destination, source: self.read("the own address", ADDRESS, address)? })
    }
}

fn number(word: &str) -> Option<u32> {
    word.strip_prefix("0x").map_or_else(|| word.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())
}

fn address(word: &str) -> Option<[u8; 6]> {
    let mut parts = word.split(':').map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok()).flatten());
    let address = [parts.next()??, parts.next()??, parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(address)
}

impl FromStr for Statement {
    type Err = NoStatement;

    fn from_str(line: &str) -> Result<Statement, NoStatement> {
        let mut words = Words(line.split_ascii_whitespace());
        let statement = match words.0.next().unwrap_or_default() {
            "route" => {
                let to = words.network("the destination")?;
                let action = match words.read("the next word", "via or group", |word| match word {
                    "via" => Some(true),
                    "group" => Some(false),
                    _ => None,
                })? {
                    true => Action::Hop(words.hop()?),
                    false => Action::Group(group(&mut words)?),
                };
                Statement::Route(to, action)
            }
            "member" => {
                let member = Member { group: words.number("the group")?, bucket: words.number("the bucket")? };
                words.word("via")?;
                Statement::Member(member, words.hop()?)
            }
            "edge" => Statement::Edge(words.port()?, words.network("the sources")?),
            "link" => {
                let port = words.port()?;
                words.word("capacity")?;
                let capacity = words.read("the capacity", "0 to 2147483647", |word| {
                    number(word).filter(|capacity| i32::try_from(*capacity).is_ok())
                })?;
                words.word("unit")?;
                let unit = words.read("the unit", "0 to 16", |word| word.parse().ok().filter(|unit| *unit <= 16))?;
                words.word("signature")?;
                Statement::Link(port, Link { capacity, unit, signature: words.number("the signature")? })
            }
            "guard" => Statement::Guard(Slot(words.number("the slot")?)),
            "restart" => Statement::Restart,
            other => return Err(NoStatement::Word(other.into())),
        };
        match words.0.next() {
            None => Ok(statement),
            Some(more) => {
                Err(NoStatement::Argument { what: "what follows", value: more.into(), allowed: "the end of the line" })
            }
        }
    }
}

fn group(words: &mut Words<'_>) -> Result<Group, NoStatement> {
    let id = words.number("the group")?;
    words.word("size")?;
    let size = words.read("the size", "1 to 65535", |word| word.parse().ok().filter(|size| *size > 0))?;
    words.word("seed")?;
    Ok(Group { id, size, seed: words.number("the seed")? })
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
        write!(f, "via {} {} {}", self.port, address(self.destination), address(self.source))
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Route(to, Action::Hop(hop)) => write!(f, "route {to} {hop}"),
            Statement::Route(to, Action::Group(Group { id, size, seed })) => {
                write!(f, "route {to} group {id} size {size} seed {seed}")
            }
            Statement::Member(Member { group, bucket }, hop) => write!(f, "member {group} {bucket} {hop}"),
            Statement::Edge(port, sources) => write!(f, "edge {port} {sources}"),
            Statement::Link(port, Link { capacity, unit, signature }) => {
                write!(f, "link {port} capacity {capacity} unit {unit} signature {signature:#010x}")
            }
            Statement::Guard(slot) => write!(f, "guard {}", slot.0),
            Statement::Restart => f.write_str("restart"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hop() -> impl Strategy<Value = NextHop> {
        (0..PORTS, any::<[u8; 6]>(), any::<[u8; 6]>()).prop_map(|(port, destination, source)| NextHop {
            port,
            destination,
            source,
        })
    }

    fn net() -> impl Strategy<Value = Ipv4Net> {
        (any::<u32>(), 0_u8..=32).prop_map(|(address, length)| Ipv4Net::new(address.into(), length).unwrap())
    }

    fn statement() -> impl Strategy<Value = Statement> {
        prop_oneof![
            (net(), hop()).prop_map(|(to, hop)| Statement::Route(to, Action::Hop(hop))),
            (net(), any::<u16>(), 1_u16.., any::<u32>())
                .prop_map(|(to, id, size, seed)| Statement::Route(to, Action::Group(Group { id, size, seed }))),
            (any::<u16>(), any::<u16>(), hop())
                .prop_map(|(group, bucket, hop)| Statement::Member(Member { group, bucket }, hop)),
            (0..PORTS, net()).prop_map(|(port, sources)| Statement::Edge(port, sources)),
            (0..PORTS, 0_u32..1 << 31, 0_u8..=16, any::<u32>()).prop_map(|(port, capacity, unit, signature)| {
                Statement::Link(port, Link { capacity, unit, signature })
            }),
            any::<u32>().prop_map(|slot| Statement::Guard(Slot(slot))),
            Just(Statement::Restart),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(statement in statement()) {
            prop_assert_eq!(statement.to_string().parse(), Ok(statement));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,60}", statement in statement(), cut in 0_usize..60) {
            let _ = text.parse::<Statement>();
            let line: String = statement.to_string().chars().take(cut).collect();
            let _ = line.parse::<Statement>();
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = |line: &str| line.parse::<Statement>().unwrap_err().to_string();
        assert_eq!(error("rout"), "`rout` is no statement; allowed are route, member, edge, link, guard, restart");
        assert_eq!(error("edge 512 10.0.0.0/8"), "the port is `512`; allowed is 0 to 511");
        assert_eq!(error("guard"), "the slot is ``; allowed is a number that fits");
        assert_eq!(error("restart now"), "what follows is `now`; allowed is the end of the line");
        assert_eq!(error("route 10.0.0.0/8 group 1 size 0 seed 1"), "the size is `0`; allowed is 1 to 65535");
    }
}
