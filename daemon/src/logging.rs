//! Log lines: their form, and a filter that can be changed while the daemon runs.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::value::LogFilter;
use crate::config::{Log, LogFormat};

#[derive(Debug)]
pub struct Filter {
    handle: Option<Handle<EnvFilter, Registry>>,
    present: Mutex<LogFilter>,
}

/// Does the environment say what is logged? Then the configuration does not.
pub fn is_asked_for() -> bool {
    std::env::var("SLUICE_LOG").is_ok_and(|text| LogFilter::parse(&text).is_ok())
}

/// Starts logging to stderr; `SLUICE_LOG` stands above `log.level`. A second call in one process keeps the first one's
/// form and cannot change its filter.
pub fn start(log: &Log) -> Filter {
    let environment = std::env::var("SLUICE_LOG").ok();
    let asked_for = environment.as_deref().map(LogFilter::parse);
    let level = asked_for.as_ref().and_then(|read| read.as_ref().ok()).unwrap_or(&log.level).clone();
    let (filter, handle) = reload::Layer::new(level.filter.clone());
    let terminal = std::io::stderr().is_terminal();
    let journal = std::env::var_os("JOURNAL_STREAM").is_some() && !terminal;
    let to_stderr = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match log.format {
        LogFormat::Json => to_stderr.json().flatten_event(true).boxed(),
        LogFormat::Text => to_stderr.with_ansi(terminal).boxed(),
        // journald stamps the time itself.
        LogFormat::Journald => to_stderr.with_ansi(false).without_time().boxed(),
        LogFormat::Auto if journal => to_stderr.with_ansi(false).without_time().boxed(),
        LogFormat::Auto if terminal => to_stderr.with_ansi(std::env::var_os("NO_COLOR").is_none()).boxed(),
        LogFormat::Auto => to_stderr.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(layer).try_init().is_ok();
    if let Some(Err(why)) = asked_for {
        tracing::warn!(event = "log-filter", %why, "SLUICE_LOG is no filter; log.level = \"{level}\" holds");
    }
    Filter { handle: started.then_some(handle), present: Mutex::new(level) }
}

impl Filter {
    pub fn present(&self) -> LogFilter {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Puts another one in force.
    ///
    /// # Errors
    /// Why it cannot be; the present one stays.
    pub fn set(&self, wanted: &LogFilter) -> Result<(), String> {
        let handle = self.handle.as_ref().ok_or("logging belongs to another part of this process")?;
        handle.reload(wanted.filter.clone()).map_err(|error| error.to_string())?;
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone_from(wanted);
        Ok(())
    }
}

/// One line for a panic, then abort: a task that is half dead must not look alive. Orders run out by themselves.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed").to_owned();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(
            event = "panic",
            thread = name,
            place,
            cost = "flows fall back to ordinary congestion control within their orders' life",
            %backtrace,
            "a bug: {text}"
        );
        std::process::abort();
    }));
}
