//! The service for other hosts, where hosts keep the tables of their own links; and the watch on this host's certificate.

use std::sync::{Arc, Mutex};

use sluice_identity::Credentials;
use sluice_schedule::BootId;
use sluice_schedule::switch::{Limits, Switch};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::told;
use crate::core::Core;
use crate::exchange::Identity;
use crate::exchange::service::Service;
use crate::fabric::Fabric;
use crate::own_table::{self, OwnTable};

/// Reads the certificate again when its files change, for as long as the loop's runtime lives. How it stands the loop asks
/// for itself.
pub(super) fn watch(credentials: &Arc<Credentials>) {
    let watch = credentials.clone().watch(|standing, changed| {
        if changed {
            let identity = standing.own.as_deref().unwrap_or_default();
            tracing::info!(event = "certificates-read", identity, "its certificate is in force for new connections");
        }
    });
    tokio::spawn(watch);
}

/// Keeps the tables of this host's links where hosts do, and lets other hosts in.
pub(super) fn serve(
    core: &mut Core,
    fabric: &Fabric,
    boot: BootId,
    identity: Arc<Identity>,
    news: &Arc<Notify>,
    peers: Vec<std::net::TcpListener>,
) {
    let kept = fabric.kept();
    if kept.is_empty() {
        return;
    }
    let limits = Limits { horizon: usize::try_from(core.config().slot.horizon).unwrap_or(10), ..Limits::default() };
    let mut table = OwnTable::new(fabric.host, Switch::new(boot, limits, &kept));
    table.place(fabric.places());
    let wake = news.clone();
    table.on_news(Box::new(move || wake.notify_one()));
    let table = Arc::new(Mutex::new(table));
    core.keep_own_table(table.clone());
    let clock = identity.clone();
    tokio::spawn(own_table::tell(table.clone(), move || clock.slot(clock.wall.now())));
    let service = Service::new(table.clone(), identity.clone());
    let gate = service.gate(core.config().peer.peers.clone());
    for listener in peers {
        let (service, gate) = (service.clone(), gate.clone());
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        match listener {
            Ok(listener) => {
                tokio::spawn(async move {
                    if let Err(error) = service.serve(listener, gate).await {
                        told::no_peers(&error);
                    }
                });
            }
            Err(error) => told::no_peers(&error),
        }
    }
}
