//! Watches this process's certificate and tells what becomes of it.

use std::sync::Arc;

use sluice_identity::{Credentials, Life, Standing};

/// What was told last of the certificate.
#[derive(Debug, Default, PartialEq)]
struct Told {
    life: Option<Life>,
    fault: Option<String>,
}

/// Reads the files again when they change, for as long as it is polled.
pub async fn watch(credentials: Arc<Credentials>) {
    let mut told = Told { life: Some(Life::Good), fault: None };
    credentials.watch(move |standing, changed| tell(&mut told, standing, changed)).await;
}

fn tell(told: &mut Told, standing: &Standing, changed: bool) {
    let own = standing.own.as_deref().unwrap_or("nobody");
    if changed {
        tracing::info!(event = "certificates-read", identity = own, "its certificate is in force for new connections");
    }
    let now = Told { life: standing.life, fault: standing.fault.as_ref().map(ToString::to_string) };
    if now.fault != told.fault
        && let Some(fault) = &now.fault
    {
        tracing::warn!(
            event = "certificates-unusable",
            cost = "what was in force before stays; without any, no host can connect",
            next = "mend the files that [tls] names: sluice tls show",
            "{fault}"
        );
    }
    if now.life != told.life {
        match now.life {
            Some(Life::Soon) => tracing::warn!(
                event = "cert-expires-soon",
                identity = own,
                cost = "nothing yet; after that hosts do without this process's tables",
                next = "issue it anew: sluice tls rotate, or see what renews it",
                "less than three tenths of its certificate's life are left"
            ),
            Some(Life::Over) => tracing::warn!(
                event = "cert-expired",
                identity = own,
                cost = "hosts refuse it and do without this process's tables",
                next = "issue it anew: sluice tls rotate, or see what renews it; is the clock right?",
                "its certificate is over, or not yet good"
            ),
            Some(Life::Good) | None => {}
        }
    }
    *told = now;
}
