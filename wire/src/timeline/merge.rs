//! Several hosts' traces on one axis. Every trace says its first slot; slot numbers are the cluster's, so no clock
//! has to be aligned. Process ids are moved apart.

use serde_json::{Value, json};
use sluice_schedule::Slot;

/// Process ids per trace.
const PID_STRIDE: u64 = 10_000;

/// Why traces cannot be joined.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No trace was given, so there is nothing to join.
    #[error("no trace given; name at least one file")]
    Empty,
    /// Not written by Sluice.
    #[error("trace {index} ({name}): {field} is missing; only traces written by `sluice timeline` can be merged")]
    Foreign {
        /// Place of the trace in what was given, counted from 1.
        index: usize,
        /// Name of the trace as it was given.
        name: String,
        /// The field that is missing or wrong.
        field: &'static str,
    },
    /// The traces have slots of different lengths.
    #[error("trace {index} ({name}): slot_length_ns is {found}, the first trace has {allowed}")]
    SlotLength {
        /// Place of the trace in what was given, counted from 1.
        index: usize,
        /// Name of the trace as it was given.
        name: String,
        /// The slot length that was found, in nanoseconds.
        found: u64,
        /// Of the first trace.
        allowed: u64,
    },
}

/// Joins traces, each with a name for messages.
///
/// # Errors
/// [`MergeError`] that names the trace and the field.
pub fn merge(traces: Vec<(String, Value)>) -> Result<Value, MergeError> {
    let mut parts = Vec::with_capacity(traces.len());
    for (index, (name, mut trace)) in traces.into_iter().enumerate() {
        let foreign = |field| MergeError::Foreign { index: index + 1, name: name.clone(), field };
        let other = trace.get("otherData").cloned().unwrap_or_default();
        let number = |field| other.get(field).and_then(Value::as_u64).ok_or_else(|| foreign(field));
        let slot_length = number("slot_length_ns")?;
        let first = u32::try_from(number("first_slot")?).map_err(|_| foreign("first_slot"))?;
        let events = match trace.get_mut("traceEvents").map(Value::take) {
            Some(Value::Array(events)) => events,
            _ => return Err(foreign("traceEvents")),
        };
        let host = other.get("host").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        parts.push((name, slot_length, Slot(first), host, events));
    }
    let Some(&(_, slot_length, reference, ..)) = parts.first() else { return Err(MergeError::Empty) };
    let origin = parts.iter().map(|part| part.2).min_by_key(|slot| slot.since(reference)).unwrap_or(reference);
    let mut all = Vec::new();
    let mut hosts = Vec::new();
    for (index, (name, length, first, host, events)) in parts.into_iter().enumerate() {
        if length != slot_length {
            return Err(MergeError::SlotLength { index: index + 1, name, found: length, allowed: slot_length });
        }
        let shift = f64::from(first.since(origin)) * slot_length as f64 / 1e3;
        for mut event in events {
            let Some(fields) = event.as_object_mut() else { continue };
            if let Some(ts) = fields.get("ts").and_then(Value::as_f64) {
                fields.insert("ts".into(), json!(ts + shift));
            }
            let pid = fields.get("pid").and_then(Value::as_u64).unwrap_or(0) % PID_STRIDE;
            fields.insert("pid".into(), json!(pid + index as u64 * PID_STRIDE));
            if let Some(id) = fields.get("id").and_then(Value::as_str).map(|id| format!("{index}-{id}")) {
                fields.insert("id".into(), json!(id));
            }
            all.push(event);
        }
        hosts.push(host);
    }
    Ok(json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "schema": 1,
            "hosts": hosts,
            "slot_length_ns": slot_length,
            "first_slot": origin.0,
            "host": hosts.join("+"),
        },
        "traceEvents": all,
    }))
}
