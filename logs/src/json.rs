//! A line as one JSON object: `ts`, `level`, `target`, `event`, `msg`, then the other fields as they were given.

use std::fmt;

use serde_json::Value;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// Formats lines as JSON objects. Spans are left out: the programs have none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &tracing::Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        write!(out, "{{\"ts\":{}", Value::from(time))?;
        let metadata = event.metadata();
        let level = metadata.level().as_str().to_ascii_lowercase();
        for (name, value) in [("level", level.as_str().into()), ("target", metadata.target().into())] {
            write!(out, ",\"{name}\":{value}", value = Value::String(value))?;
        }
        for (name, value) in [("event", fields.event), ("msg", fields.message)] {
            if let Some(value) = value {
                write!(out, ",\"{name}\":{}", Value::from(value))?;
            }
        }
        for (name, value) in fields.others {
            write!(out, ",{}:{value}", Value::from(name))?;
        }
        writeln!(out, "}}")
    }
}

#[derive(Default)]
struct Fields {
    event: Option<String>,
    message: Option<String>,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("event", Value::String(text)) => self.event = Some(text),
            ("message", Value::String(text)) => self.message = Some(text),
            // What the line itself says of these is not to be doubted.
            ("ts" | "level" | "target" | "msg", _) => {}
            (name, value) => self.others.push((name.strip_prefix("r#").unwrap_or(name), value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Kept;
        fn make_writer(&'a self) -> Kept {
            self.clone()
        }
    }

    #[test]
    fn a_line_is_one_object_with_its_names_first_and_nothing_breaks_it() {
        let kept = Kept::default();
        let layer = tracing_subscriber::fmt::layer().event_format(Json).with_writer(kept.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(event = "socket", job = "a\"\n\u{1b}[31m", count = 7, ratio = 0.5, of = ?Some(1), ok = true, "no {}", 1);
            tracing::info!("bare");
        });
        let bytes = kept.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let first: Value = serde_json::from_str(lines[0]).expect("JSON");
        assert_eq!(
            (&first["level"], &first["event"], &first["msg"]),
            (&"warn".into(), &"socket".into(), &"no 1".into())
        );
        assert_eq!((&first["job"], &first["count"]), (&"a\"\n\u{1b}[31m".into(), &7.into()));
        assert_eq!((&first["of"], &first["ok"], &first["ratio"]), (&"Some(1)".into(), &true.into(), &0.5.into()));
        assert!(first["target"].as_str().is_some_and(|target| target.starts_with("sluice_logs")));
        // RFC 3339 with microseconds.
        let time = first["ts"].as_str().expect("a time");
        assert!(time.len() == "2026-01-01T00:00:00.000000Z".len() && time.ends_with('Z'), "{time}");
        assert!(lines[0].starts_with("{\"ts\":") && !lines[0].contains('\u{1b}'));
        let second: Value = serde_json::from_str(lines[1]).expect("JSON");
        assert_eq!((&second["msg"], second.get("event")), (&"bare".into(), None));
    }
}
