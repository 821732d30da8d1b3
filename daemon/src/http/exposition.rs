//! The page of metrics: made at most once a second, for four readers at a time, of two mebibytes at most. Whoever asks for
//! it in a loop costs the daemon one page a second and a copy for each of four.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::{Mutex, Semaphore};

use super::api::{App, blocking, refuse};
use super::{Control, Lack};
use crate::metrics;

/// Readers at a time; the next one is told to come again.
pub(crate) const READERS: usize = 4;
/// A page is handed out again for this long.
const FRESH: Duration = Duration::from_secs(1);
/// Bytes of a page at most; what comes after is left out, whole lines only.
pub(crate) const MAX_BYTES: usize = 2 << 20;
/// Stands at the end of a page that was cut.
const CUT: &str = "# TYPE sluice_exposition_cut gauge\nsluice_exposition_cut 1\n";

/// The last page, and who may have one.
#[derive(Debug)]
pub(super) struct Expositions {
    last: Mutex<Option<(Instant, Bytes)>>,
    readers: Semaphore,
}

impl Default for Expositions {
    fn default() -> Expositions {
        Expositions { last: Mutex::default(), readers: Semaphore::new(READERS) }
    }
}

impl Expositions {
    /// The page, made anew if the last one is old. Those who ask meanwhile wait for the same one. `None`: the daemon ends.
    async fn page(&self, control: Arc<dyn Control>) -> Option<Result<Bytes, String>> {
        let mut last = self.last.lock().await;
        if let Some((made, page)) = &*last
            && made.elapsed() < FRESH
        {
            return Some(Ok(page.clone()));
        }
        let page = blocking(move || metrics::render(&control.snapshot()).map_err(|error| error.to_string())).await?;
        Some(page.map(|page| {
            let page = Bytes::from(bounded(page));
            *last = Some((Instant::now(), page.clone()));
            page
        }))
    }
}

/// The page up to the last line that fits, with a word of it at the end.
fn bounded(mut page: String) -> String {
    if page.len() > MAX_BYTES {
        let end = page.floor_char_boundary(MAX_BYTES - CUT.len());
        page.truncate(page.get(..end).and_then(|page| page.rfind('\n')).map_or(0, |at| at + 1));
        page.push_str(CUT);
    }
    page
}

/// `GET /metrics`.
pub(super) async fn prometheus(State(app): State<App>) -> Response {
    let Ok(_reader) = app.expositions.readers.try_acquire() else {
        app.control.turned_away(Lack::Metrics);
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the metrics are being read by as many as may at a time",
            "try again",
        );
    };
    match app.expositions.page(app.control.clone()).await {
        Some(Ok(page)) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response(),
        Some(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
        None => super::api::unavailable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_long_ends_with_a_whole_line_and_says_so() {
        let short = "a 1\n".repeat(10);
        assert_eq!(bounded(short.clone()), short);
        let long = bounded("sluice_of_something{link=\"eth0\"} 1234\n".repeat(100_000));
        assert!(long.len() <= MAX_BYTES && long.len() > MAX_BYTES - 200, "{}", long.len());
        assert!(long.ends_with(CUT));
        assert!(long.trim_end_matches(CUT).ends_with("} 1234\n"));
    }
}
