//! Log lines as the configuration and the environment want them, with a filter that can be changed while the daemon runs.
//! What lines look like and how many there may be is the business of `sluice-logs`.

use std::sync::{Mutex, PoisonError};

use sluice_logs::{Form, Started};

use crate::config::value::LogFilter;
use crate::config::{Log, LogFormat};

#[derive(Debug)]
pub struct Filter {
    started: Started,
    present: Mutex<LogFilter>,
}

/// Does the environment say what is logged? Then the configuration does not.
pub fn is_asked_for() -> bool {
    std::env::var("SLUICE_LOG").is_ok_and(|text| LogFilter::parse(&text).is_ok())
}

/// Starts logging; `SLUICE_LOG` stands above `log.level`. A second call in one process keeps the first one's form and cannot
/// change its filter.
pub fn start(log: &Log) -> Filter {
    let environment = std::env::var("SLUICE_LOG").ok();
    let asked_for = environment.as_deref().map(LogFilter::parse);
    let level = asked_for.as_ref().and_then(|read| read.as_ref().ok()).unwrap_or(&log.level).clone();
    let form = match log.format {
        LogFormat::Auto => Form::Auto,
        LogFormat::Text => Form::Text,
        LogFormat::Json => Form::Json,
        LogFormat::Journald => Form::Journald,
    };
    let started = sluice_logs::start(form, level.filter.clone(), "sluiced");
    if let Some(Err(why)) = asked_for {
        tracing::warn!(
            event = "log-filter",
            %why,
            cost = "lines are chosen by the configuration",
            next = "unset SLUICE_LOG, or write it as log.level is written",
            "SLUICE_LOG is no filter; log.level = \"{level}\" holds"
        );
    }
    Filter { started, present: Mutex::new(level) }
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
        self.started.filter(wanted.filter.clone())?;
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone_from(wanted);
        Ok(())
    }
    /// Says what lines were left out and not yet told of, when the daemon ends.
    pub fn finish(&self) {
        self.started.finish();
    }
}
