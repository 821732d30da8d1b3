//! How one value of a file becomes one typed setting, and what its rule says about the range.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sluice_etcd::Endpoint;
use sluice_formats::document::{Node, Value};
use sluice_formats::network;
use sluice_formats::quantity::Rational;
use sluice_logs::NotAFilter;
use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Any,
    /// A whole number in this range.
    Int(u64, u64),
    /// A power of two in this range.
    PowerOfTwo(u64, u64),
    Number(f64, f64),
    /// 1 to 63 characters of `[a-z0-9._-]`.
    Name,
    /// At most this many characters of `[a-z0-9]`.
    Suffix(usize),
    /// One of these words; a list may hold several.
    Words(&'static [&'static str]),
    /// A list of at most this many texts.
    List(usize),
    /// A list of at most this many ports or ranges `"a-b"`.
    Ports(usize),
    /// A list of at most this many networks `address/bits`.
    Networks(usize),
    /// A list of at most this many `address:port`.
    Addresses(usize),
    /// A list of at most this many members of etcd.
    Endpoints(usize),
    HostPort,
    Path,
    /// A filter of log lines.
    LogFilter,
}

/// Why a value was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    Type,
    /// It has the right type and breaks the rule.
    Range,
}

impl Rule {
    /// The rule in words; where it says nothing beyond the type, the type.
    pub fn in_words(&self, kind: &str) -> String {
        if *self == Rule::Any { kind.to_owned() } else { self.allowed() }
    }
    /// The rule in words, for messages and the reference.
    pub fn allowed(&self) -> String {
        match self {
            Rule::Any => "any".into(),
            Rule::Int(least, most) if least == most => least.to_string(),
            Rule::Int(least, most) => format!("{least} to {most}"),
            Rule::PowerOfTwo(least, most) => format!("a power of 2 from {least} to {most}"),
            Rule::Number(least, most) => format!("{least} to {most}"),
            Rule::Name => "1 to 63 characters of [a-z0-9._-]".into(),
            Rule::Suffix(most) => format!("at most {most} characters of [a-z0-9]"),
            Rule::Words(words) => words.join(", "),
            Rule::List(most) => format!("a list of at most {most} texts"),
            Rule::Ports(most) => format!("a list of at most {most} ports or ranges \"a-b\""),
            Rule::Networks(most) => format!("a list of at most {most} networks like \"10.0.0.0/8\""),
            Rule::Addresses(most) => format!("a list of at most {most} addresses like \"[::]:9604\""),
            Rule::Endpoints(most) => format!("a list of at most {most} endpoints like \"https://etcd-1:2379\""),
            Rule::HostPort => "host:port".into(),
            Rule::Path => "an absolute path".into(),
            Rule::LogFilter => "a filter such as \"info\" or \"info,sluiced::monitor=debug\"".into(),
        }
    }
}

/// A type that a key may have.
pub trait Setting: Sized {
    /// The type in words.
    const TYPE: &'static str;
    /// Reads a value under a rule.
    ///
    /// # Errors
    /// [`Refusal`] if the value has another type or breaks the rule.
    fn read(value: &Value, rule: &Rule) -> Result<Self, Refusal>;
    /// The setting as TOML; empty if it is not set.
    fn show(&self) -> String;
}

impl Setting for u64 {
    const TYPE: &'static str = "a whole number";
    fn read(value: &Value, rule: &Rule) -> Result<u64, Refusal> {
        let Value::Number(text) = value else { return Err(Refusal::Type) };
        let number = Rational::parse_setting(text).ok().and_then(|number| number.to_u64()).ok_or(Refusal::Range)?;
        let ok = match rule {
            Rule::Int(least, most) => (*least..=*most).contains(&number),
            Rule::PowerOfTwo(least, most) => (*least..=*most).contains(&number) && number.is_power_of_two(),
            _ => true,
        };
        if ok { Ok(number) } else { Err(Refusal::Range) }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for f64 {
    const TYPE: &'static str = "a number";
    fn read(value: &Value, rule: &Rule) -> Result<f64, Refusal> {
        let Value::Number(text) = value else { return Err(Refusal::Type) };
        let number: f64 = text.parse().map_err(|_| Refusal::Range)?;
        match rule {
            Rule::Number(least, most) if !(*least..=*most).contains(&number) => Err(Refusal::Range),
            _ if !number.is_finite() => Err(Refusal::Range),
            _ => Ok(number),
        }
    }
    fn show(&self) -> String {
        if self.fract() == 0.0 { format!("{self:.1}") } else { self.to_string() }
    }
}

impl Setting for bool {
    const TYPE: &'static str = "true or false";
    fn read(value: &Value, _rule: &Rule) -> Result<bool, Refusal> {
        match value {
            Value::Bool(bool) => Ok(*bool),
            _ => Err(Refusal::Type),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    const TYPE: &'static str = "a text";
    fn read(value: &Value, rule: &Rule) -> Result<String, Refusal> {
        let text = text_of(value)?;
        if text_fits(text, rule) { Ok(text.to_owned()) } else { Err(Refusal::Range) }
    }
    fn show(&self) -> String {
        quoted(self)
    }
}

impl Setting for PathBuf {
    const TYPE: &'static str = "a path";
    fn read(value: &Value, _rule: &Rule) -> Result<PathBuf, Refusal> {
        let text = text_of(value)?;
        let ok = text.starts_with('/') && text.len() <= 4096 && !text.contains('\0');
        if ok { Ok(PathBuf::from(text)) } else { Err(Refusal::Range) }
    }
    fn show(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

impl Setting for HostPort {
    const TYPE: &'static str = "a text";
    fn read(value: &Value, _rule: &Rule) -> Result<HostPort, Refusal> {
        HostPort::parse(text_of(value)?).ok_or(Refusal::Range)
    }
    fn show(&self) -> String {
        if self.host.is_empty() { quoted("") } else { quoted(&self.to_string()) }
    }
}

impl<T: Element> Setting for Vec<T> {
    const TYPE: &'static str = "a list of texts";
    fn read(value: &Value, rule: &Rule) -> Result<Vec<T>, Refusal> {
        let Value::List(list) = value else { return Err(Refusal::Type) };
        let most = match rule {
            Rule::List(n) | Rule::Ports(n) | Rule::Networks(n) | Rule::Addresses(n) | Rule::Endpoints(n) => *n,
            Rule::Words(words) => words.len(),
            _ => 64,
        };
        if list.len() > most {
            return Err(Refusal::Range);
        }
        let element = |node: &Node| match (&node.value, rule) {
            (Value::Text(text), _) | (Value::Number(text), Rule::Ports(_)) => T::parse(text).ok_or(Refusal::Range),
            _ => Err(Refusal::Type),
        };
        list.iter().map(element).collect()
    }
    fn show(&self) -> String {
        format!("[{}]", self.iter().map(|element| quoted(&element.text())).collect::<Vec<_>>().join(", "))
    }
}

pub trait Element: Sized {
    /// Reads one entry; `None` if it is not allowed.
    fn parse(text: &str) -> Option<Self>;
    /// The entry as it is read.
    fn text(&self) -> String;
}

impl Element for IpNet {
    fn parse(text: &str) -> Option<IpNet> {
        network::parse(text)
    }
    fn text(&self) -> String {
        network::show(self)
    }
}

impl Element for SocketAddr {
    fn parse(text: &str) -> Option<SocketAddr> {
        text.parse().ok()
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Element for Endpoint {
    fn parse(text: &str) -> Option<Endpoint> {
        Endpoint::parse(text)
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

/// A range of TCP ports, written as `"a"` or `"a-b"`.
impl Element for RangeInclusive<u16> {
    fn parse(text: &str) -> Option<RangeInclusive<u16>> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (from.trim().parse::<u16>().ok()?, to.trim().parse::<u16>().ok()?);
        (from <= to && from > 0).then_some(from..=to)
    }
    fn text(&self) -> String {
        if self.start() == self.end() { self.start().to_string() } else { format!("{}-{}", self.start(), self.end()) }
    }
}

/// A named thing, or those that the daemon finds by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named<T> {
    /// Written as `auto`.
    Auto,
    Name(T),
}

impl<T: From<String> + AsRef<Path>> Element for Named<T> {
    fn parse(text: &str) -> Option<Named<T>> {
        let ok = text.len() <= 4096 && !text.contains('\0');
        ok.then(|| if text == "auto" { Named::Auto } else { Named::Name(text.to_owned().into()) })
    }
    fn text(&self) -> String {
        match self {
            Named::Auto => "auto".into(),
            Named::Name(name) => name.as_ref().display().to_string(),
        }
    }
}

impl<T> Named<T> {
    /// The name, if it is one.
    pub fn name(&self) -> Option<&T> {
        match self {
            Named::Auto => None,
            Named::Name(name) => Some(name),
        }
    }
}

/// Where something answers; the host is a name or an address, an IPv6 address in brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub host: String,
    /// TCP or UDP port.
    pub port: u16,
}

impl HostPort {
    pub fn parse(text: &str) -> Option<HostPort> {
        let (host, port) = text.rsplit_once(':')?;
        let ok = !host.is_empty() && host.len() <= 253 && !host.contains(char::is_whitespace);
        Some(HostPort { host: host.to_owned(), port: port.parse().ok().filter(|_| ok)? })
    }
}

impl HostPort {
    /// Is it this machine itself?
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.to_canonical().is_loopback())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Which log lines are written: directives `target=level` with commas between them.
#[derive(Clone, Debug)]
pub struct LogFilter {
    text: String,
    /// What the text says.
    pub filter: EnvFilter,
}

impl LogFilter {
    /// As `log.level` and `SLUICE_LOG` write it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<LogFilter, NotAFilter> {
        Ok(LogFilter { text: text.to_owned(), filter: sluice_logs::filter(text)? })
    }
    pub(super) fn info() -> LogFilter {
        LogFilter { text: "info".into(), filter: EnvFilter::new("info") }
    }
}

impl PartialEq for LogFilter {
    fn eq(&self, other: &LogFilter) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for LogFilter {
    const TYPE: &'static str = "a text";
    fn read(value: &Value, _rule: &Rule) -> Result<LogFilter, Refusal> {
        LogFilter::parse(text_of(value)?).map_err(|_| Refusal::Range)
    }
    fn show(&self) -> String {
        quoted(&self.text)
    }
}

impl<T: Setting> Setting for Option<T> {
    const TYPE: &'static str = T::TYPE;
    fn read(value: &Value, rule: &Rule) -> Result<Option<T>, Refusal> {
        T::read(value, rule).map(Some)
    }
    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }
}

pub(super) fn text_of(value: &Value) -> Result<&str, Refusal> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(Refusal::Type),
    }
}

fn text_fits(text: &str, rule: &Rule) -> bool {
    let name = |text: &str| {
        (1..=63).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    match rule {
        Rule::Name => name(text),
        Rule::Suffix(most) => text.len() <= *most && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
        _ => text.len() <= 4096 && !text.contains('\0'),
    }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Settings that are one of a few words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }
        impl $name {
            /// The words a file may hold.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
        impl Element for $name {
            fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)* _ => None }
            }
            fn text(&self) -> String {
                self.word().into()
            }
        }
        impl Setting for $name {
            const TYPE: &'static str = "a word";
            fn read(value: &Value, _rule: &Rule) -> Result<Self, Refusal> {
                Self::parse(text_of(value)?).ok_or(Refusal::Range)
            }
            fn show(&self) -> String {
                quoted(self.word())
            }
        }
    )*};
}
pub(super) use words;
