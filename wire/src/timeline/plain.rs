//! The plain records: one line per flow and slot, as CSV or as JSON lines with the same keys.

use std::io::{self, Write};

use serde_json::json;

use super::{Filter, FlowRecord, Timeline};

const HEADER: &str = "slot,flow,name,job,ordered_bps,delivered_bytes,remaining_bytes,why,trigger";

impl Timeline {
    /// Writes flow records as CSV with a header line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn csv(&self, out: &mut impl Write, filter: &Filter) -> io::Result<()> {
        writeln!(out, "{HEADER}")?;
        for r in self.kept(filter) {
            let (flow, job) = (r.flow, quoted(&self.job_name(r.job)));
            let (ordered, delivered, remaining) = (r.ordered.0, r.delivered.0, r.remaining.0);
            let (slot, why, trigger) = (r.slot, r.why.as_str(), r.trigger.as_str());
            writeln!(out, "{slot},{flow},{flow},{job},{ordered},{delivered},{remaining},{why},{trigger}")?;
        }
        Ok(())
    }

    /// Writes flow records as one JSON object per line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn jsonl(&self, out: &mut impl Write, filter: &Filter) -> io::Result<()> {
        for r in self.kept(filter) {
            let line = json!({
                "slot": r.slot.0,
                "flow": r.flow.to_string(),
                "name": r.flow.to_string(),
                "job": self.job_name(r.job),
                "ordered_bps": r.ordered.0,
                "delivered_bytes": r.delivered.0,
                "remaining_bytes": r.remaining.0,
                "why": r.why.as_str(),
                "trigger": r.trigger.as_str(),
            });
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn kept<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a FlowRecord> {
        self.flows.iter().filter(|record| self.keeps(filter, record.slot, Some(record.job)))
    }
}

/// A CSV field: quoted where it must be, and never taken for a formula by a spreadsheet.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@']);
    if formula || text.contains([',', '"', '\n']) {
        format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
