//! gNMI notifications to readings: of all that a target may say, how many octets left which interface, and when.
//!
//! The path is OpenConfig's, `/interfaces/interface[name=…]/state/counters/out-octets`; a target may put any front
//! part of it into the prefix, and the name of a module before any step.

pub mod client;

use sluice_schedule::Nanos;

use crate::pb;
use crate::pb::typed_value::Value;

/// The steps of the path; the second has the interface's name as a key.
const STEPS: [&str; 5] = ["interfaces", "interface", "state", "counters", "out-octets"];
/// Which step has a key.
const KEYED: &str = STEPS[1];
/// What the key is called.
const KEY: &str = "name";
/// Bytes of an interface's name at most.
pub const NAME: usize = 255;
/// Characters of a value that are told when it is none.
const SHOWN: usize = 40;

/// What a target says of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The interface's name at the target.
    pub interface: String,
    /// Octets that left by the interface since some moment, framing included.
    pub out_octets: u64,
    /// When that was: nanoseconds since 1970 by the target's clock.
    pub taken: Nanos,
}

/// Why an update for the counter is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Before 1970, which no clock says that was ever set.
    #[error("gnmi-malformed: timestamp is {0} ns; allowed 0 and more.")]
    Timestamp(i64),
    /// The interface has no name, or one that is too long.
    #[error("gnmi-malformed: the name of an interface has {0} bytes; allowed 1 to {NAME}.")]
    Name(usize),
    /// The value is not a number of octets.
    #[error("gnmi-malformed: out-octets of interface {interface:?} is {found}; allowed 0 to 2^64 - 1, number or text.")]
    Value {
        /// Which interface.
        interface: String,
        /// What was there, the beginning of it.
        found: String,
    },
}

/// Every reading in a notification, in its order: at most one for each update, none for those at other paths.
///
/// An item is an error where the path is that of the counter, and name, time or value are none.
pub fn readings(notification: &pb::Notification) -> impl Iterator<Item = Result<Reading, Malformed>> {
    let prefix = elements(notification.prefix.as_ref());
    notification.update.iter().filter_map(move |update| {
        let interface = interface(prefix.iter().chain(elements(update.path.as_ref())))?;
        let value = update.val.as_ref().and_then(|value| value.value.as_ref());
        Some(read(notification.timestamp, interface, value))
    })
}

/// The path of the counter of `interface`; `*` stands for every interface.
pub fn path(interface: &str) -> pb::Path {
    let element = |step: &&str| {
        let mut element = pb::PathElem { name: (*step).to_owned(), ..pb::PathElem::default() };
        if *step == KEYED {
            element.key.insert(KEY.to_owned(), interface.to_owned());
        }
        element
    };
    pb::Path { elem: STEPS.iter().map(element).collect(), ..pb::Path::default() }
}

/// The interface whose counter is at this path, an empty name where it says none; nothing for any other path.
pub(crate) fn interface<'a>(elements: impl Iterator<Item = &'a pb::PathElem>) -> Option<&'a str> {
    let mut steps = STEPS.iter();
    let mut interface = "";
    for element in elements {
        let step = *steps.next()?;
        let name = element.name.rsplit_once(':').map_or(element.name.as_str(), |(_module, name)| name);
        if name != step {
            return None;
        }
        if step == KEYED {
            interface = element.key.get(KEY).map_or("", String::as_str);
        }
    }
    steps.next().is_none().then_some(interface)
}

fn elements(path: Option<&pb::Path>) -> &[pb::PathElem] {
    path.map(|path| path.elem.as_slice()).unwrap_or_default()
}

fn read(timestamp: i64, interface: &str, value: Option<&Value>) -> Result<Reading, Malformed> {
    let taken = u64::try_from(timestamp).map_err(|_| Malformed::Timestamp(timestamp))?;
    if !(1..=NAME).contains(&interface.len()) {
        return Err(Malformed::Name(interface.len()));
    }
    let interface = interface.to_owned();
    match value.and_then(octets) {
        Some(out_octets) => Ok(Reading { interface, out_octets, taken: Nanos(taken) }),
        None => Err(Malformed::Value { interface, found: shown(value) }),
    }
}

fn octets(value: &Value) -> Option<u64> {
    match value {
        Value::UintVal(number) => Some(*number),
        Value::IntVal(number) => u64::try_from(*number).ok(),
        Value::StringVal(text) => digits(text.as_bytes()),
        Value::JsonVal(text) | Value::JsonIetfVal(text) => digits(text),
    }
}

/// A whole number in decimal digits, quoted or not.
fn digits(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?.trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    // Reading a number would also take a plus sign.
    if bare.bytes().all(|byte| byte.is_ascii_digit()) { bare.parse().ok() } else { None }
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => return "of a kind that is not read here".to_owned(),
        Some(Value::UintVal(number)) => return number.to_string(),
        Some(Value::IntVal(number)) => return number.to_string(),
        Some(Value::StringVal(text)) => text.as_bytes(),
        Some(Value::JsonVal(text) | Value::JsonIetfVal(text)) => text.as_slice(),
    };
    // Cut before anything else: a text may be as long as a message.
    let text = String::from_utf8_lossy(text.get(..SHOWN).unwrap_or(text));
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
