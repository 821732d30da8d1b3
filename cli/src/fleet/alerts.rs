//! Alerts that fire, as Prometheus tells them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use sluice_fleet::judge::Alert;

use crate::client;

const TIME: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 16 << 20;

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    alerts: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    state: String,
    labels: Labels,
}

#[derive(Deserialize)]
struct Labels {
    alertname: String,
    #[serde(default)]
    instance: String,
}

/// Those that fire now and whose name begins so.
///
/// # Errors
/// Prometheus does not answer, or not in its form.
pub async fn firing(prometheus: &str, named: &str) -> Result<BTreeSet<Alert>, String> {
    let answer = client::fetch(prometheus, "/api/v1/alerts", TIME, MAX_BYTES).await;
    read(&answer.map_err(|error| format!("{prometheus}: {error}"))?, named)
}

fn read(answer: &[u8], named: &str) -> Result<BTreeSet<Alert>, String> {
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|error| format!("not an answer of Prometheus: {error}"))?;
    let firing = answer.data.alerts.into_iter().filter(|alert| alert.state == "firing");
    let alerts = firing.map(|One { labels, .. }| Alert { name: labels.alertname, instance: labels.instance });
    Ok(alerts.filter(|alert| alert.name.starts_with(named)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_that_fire_and_are_ours() {
        let text = r#"{"status":"success","data":{"alerts":[
            {"labels":{"alertname":"SluiceSlotsLate","instance":"gpu-1:9605","severity":"page"},"annotations":{},"state":"firing","value":"1"},
            {"labels":{"alertname":"SluiceDown","instance":"gpu-2:9605"},"state":"pending"},
            {"labels":{"alertname":"DiskFull"},"state":"firing"}]}}"#;
        let alert = Alert { name: "SluiceSlotsLate".into(), instance: "gpu-1:9605".into() };
        assert_eq!(read(text.as_bytes(), "Sluice"), Ok([alert].into()));
        assert_eq!(read(text.as_bytes(), "").map(|all| all.len()), Ok(2));
        assert!(read(b"<html>", "").is_err());
    }
}
