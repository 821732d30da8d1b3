//! Server-sent events as bytes: what `text/event-stream` consists of.

use serde::Serialize;
use sluice_schedule::Nanos;

/// The `Content-Type` of a stream of events.
pub const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// Tells a browser how long to wait before it connects again.
pub fn retry(after: Nanos) -> Vec<u8> {
    format!("retry: {}\n\n", after.0 / 1_000_000).into_bytes()
}

/// One event with this name, and the value as one line of JSON.
///
/// # Errors
/// The value has no form in JSON.
pub fn event(name: &str, value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(b"event: ");
    // A line feed would end the line, and an empty line the event.
    out.extend(name.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
    out.extend_from_slice(b"\ndata: ");
    serde_json::to_writer(&mut out, value)?;
    out.extend_from_slice(b"\n\n");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a browser makes of it: field and value of each line, for each event.
    fn read(bytes: &[u8]) -> Vec<Vec<(String, String)>> {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let events = text.split("\n\n").filter(|event| !event.is_empty());
        let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        events.map(|event| event.lines().filter_map(field).collect()).collect()
    }

    #[test]
    fn a_pause_is_in_milliseconds() {
        assert_eq!(retry(Nanos::from_millis(250)), b"retry: 250\n\n");
    }

    proptest! {
        #[test]
        fn any_text_stays_in_one_event_of_one_line(name in "[a-z\r\n]{0,9}", text in any::<String>()) {
            let read = read(&event(&name, &text).expect("text is JSON"));
            let clean: String = name.chars().filter(|c| c.is_alphabetic()).collect();
            let line = serde_json::to_string(&text).expect("text is JSON");
            prop_assert!(!line.contains(['\n', '\r']));
            prop_assert_eq!(read, [[("event".to_owned(), clean), ("data".to_owned(), line)]]);
        }
    }
}
