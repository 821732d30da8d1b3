//! Takes what points at machines out of texts: addresses and host names become hashes with a salt of their own, so that one
//! stays recognisable within a report and nowhere else. Loopback and the unspecified address stay: they point at nobody.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Keys whose values are never shown.
const SECRETS: [&str; 6] = ["key", "password", "passphrase", "token", "secret", "authorization"];
/// Longest text of an IPv6 address.
const LONGEST_V6: usize = 45;
/// Shortest name that is taken for one: shorter ones are words of any sentence.
const LEAST_NAME: usize = 2;

/// One report's way to hide things.
#[derive(Debug)]
pub struct Redactor {
    salt: [u8; 16],
    /// Lower case, longest first.
    names: Vec<String>,
    addresses: BTreeSet<String>,
    hidden_names: BTreeSet<String>,
}

impl Redactor {
    /// Hides addresses and these names.
    pub fn new(salt: [u8; 16], names: impl IntoIterator<Item = String>) -> Redactor {
        let clean = |name: String| name.trim().to_ascii_lowercase();
        let named = |name: &String| name.len() >= LEAST_NAME && name != "localhost" && name.parse::<IpAddr>().is_err();
        let mut names: Vec<String> = names.into_iter().map(clean).filter(named).collect();
        names.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        names.dedup();
        Redactor { salt, names, addresses: BTreeSet::new(), hidden_names: BTreeSet::new() }
    }

    /// Different addresses and names that were hidden until now.
    pub fn counts(&self) -> (usize, usize) {
        (self.addresses.len(), self.hidden_names.len())
    }

    /// A document with every text in it hidden, names of keys included where they are addresses.
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(list) => list.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                let mut out = serde_json::Map::new();
                for (key, value) in map {
                    let hidden =
                        if is_secret(key) && !value.is_object() { "(secret)".into() } else { self.value(value) };
                    out.insert(self.text(key), hidden);
                }
                // A list of keys and values, as configurations are told.
                if let Some(key) = map.get("key").and_then(Value::as_str)
                    && (map.contains_key("value") || map.contains_key("default"))
                {
                    out.insert("key".into(), self.text(key).into());
                    if is_secret(key) {
                        out.insert("value".into(), "(secret)".into());
                    }
                }
                Value::Object(out)
            }
            other => other.clone(),
        }
    }

    /// A text with addresses and names hidden.
    pub fn text(&mut self, text: &str) -> String {
        let without = self.addresses(text);
        self.names(&without)
    }

    fn addresses(&mut self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(text.len());
        let (mut at, mut copied) = (0, 0);
        while at < bytes.len() {
            let begins = bytes.get(at).is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b':');
            let found = if begins { address(text, at) } else { None };
            match found {
                Some((end, hidden)) => {
                    out += text.get(copied..at).unwrap_or_default();
                    let written = text.get(at..end).unwrap_or_default();
                    match hidden {
                        Hidden::Nobody => out += written,
                        Hidden::Somebody(what) => {
                            out += &format!("addr-{}", self.hash(&what));
                            self.addresses.insert(what);
                        }
                    }
                    (at, copied) = (end, end);
                }
                None => at += 1,
            }
        }
        out + text.get(copied..).unwrap_or_default()
    }

    fn names(&mut self, text: &str) -> String {
        let lower = text.to_ascii_lowercase();
        let mut out = String::with_capacity(text.len());
        let (mut at, mut copied) = (0, 0);
        let inside = |at: Option<usize>| {
            at.and_then(|at| lower.as_bytes().get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric())
        };
        while at < lower.len() {
            let rest = lower.get(at..).unwrap_or_default();
            let begins = lower.is_char_boundary(at) && !inside(at.checked_sub(1));
            let name = self
                .names
                .iter()
                .find(|name| begins && rest.starts_with(name.as_str()) && !inside(Some(at + name.len())));
            let Some(name) = name.cloned() else {
                at += 1;
                continue;
            };
            out += text.get(copied..at).unwrap_or_default();
            out += &format!("host-{}", self.hash(&name));
            at += name.len() + domain(text.get(at + name.len()..).unwrap_or_default());
            copied = at;
            self.hidden_names.insert(name);
        }
        out + text.get(copied..).unwrap_or_default()
    }

    fn hash(&self, text: &str) -> String {
        let digest = Sha256::new().chain_update(self.salt).chain_update(text).finalize();
        digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Bytes of the domain that follows a host's name, as in `.pod-a.example`.
fn domain(rest: &str) -> usize {
    let mut length = 0;
    while let Some(label) = rest.get(length..).and_then(|rest| rest.strip_prefix('.')) {
        let end = label.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
        if end == 0 {
            break;
        }
        length += 1 + end;
    }
    length
}

fn is_secret(key: &str) -> bool {
    let last = key.rsplit(['.', '_', '-']).next().unwrap_or(key).to_ascii_lowercase();
    // `key` alone names a row of a list, not a secret.
    SECRETS.contains(&last.as_str()) && key != "key"
}

enum Hidden {
    /// It points at no machine.
    Nobody,
    /// The address in one form.
    Somebody(String),
}

/// An address that begins here, and where it ends.
fn address(text: &str, at: usize) -> Option<(usize, Hidden)> {
    hardware(text, at).or_else(|| v6(text, at)).or_else(|| v4(text, at))
}

fn is_word(text: &str, at: Option<usize>) -> bool {
    at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_alphanumeric)
}

/// Six pairs of hexadecimal digits.
fn hardware(text: &str, at: usize) -> Option<(usize, Hidden)> {
    const LENGTH: usize = 17;
    let piece = text.get(at..at + LENGTH)?;
    let fits = piece.bytes().enumerate().all(|(i, b)| if i % 3 == 2 { b == b':' } else { b.is_ascii_hexdigit() });
    let bounded = !is_word(text, at.checked_sub(1)) && !is_word(text, Some(at + LENGTH));
    // One more pair is no hardware address, but may be a longer one of IPv6.
    let behind = |by: usize| text.as_bytes().get(at + LENGTH + by).copied();
    let more = behind(0) == Some(b':') && behind(1).is_some_and(|byte| byte == b':' || byte.is_ascii_hexdigit());
    (fits && bounded && !more).then(|| (at + LENGTH, Hidden::Somebody(piece.to_ascii_lowercase())))
}

fn v6(text: &str, at: usize) -> Option<(usize, Hidden)> {
    if is_word(text, at.checked_sub(1)) || at.checked_sub(1).and_then(|at| text.as_bytes().get(at)) == Some(&b':') {
        return None;
    }
    let rest = text.get(at..)?;
    let fits = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let length = rest.bytes().take(LONGEST_V6 + 1).take_while(|byte| fits(*byte)).count();
    if rest.get(..length)?.bytes().filter(|byte| *byte == b':').count() < 2 {
        return None;
    }
    (2..=length).rev().find_map(|length| {
        if is_word(text, Some(at + length)) {
            return None;
        }
        let address: Ipv6Addr = rest.get(..length)?.parse().ok()?;
        let hidden = match address.to_ipv4_mapped() {
            Some(v4) => of_v4(v4),
            None if address.is_loopback() || address.is_unspecified() => Hidden::Nobody,
            None => Hidden::Somebody(address.to_string()),
        };
        Some((at + length, hidden))
    })
}

/// Four numbers, whatever word they are glued to.
fn v4(text: &str, at: usize) -> Option<(usize, Hidden)> {
    let digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    if digit(at.checked_sub(1)) || !digit(Some(at)) {
        return None;
    }
    let rest = text.get(at..)?;
    let mut end = 0;
    for part in 0..4 {
        if part > 0 {
            end += rest.get(end..)?.starts_with('.').then_some(1)?;
        }
        let digits = rest.get(end..)?.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=3).contains(&digits) {
            return None;
        }
        end += digits;
    }
    let address: Ipv4Addr = rest.get(..end)?.parse().ok()?;
    Some((at + end, of_v4(address)))
}

fn of_v4(address: Ipv4Addr) -> Hidden {
    if address.is_loopback() || address.is_unspecified() {
        return Hidden::Nobody;
    }
    Hidden::Somebody(address.to_string())
}

#[cfg(test)]
mod tests;
