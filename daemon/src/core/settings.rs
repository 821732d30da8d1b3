//! From the configuration to what the brain is told.

use sluice_schedule::host::config::RESERVE;
use sluice_schedule::host::{HostConfig, PolicyName, Reserve, SurplusRule};
use sluice_schedule::{BootId, HolderId, HostId};

use crate::config::{Config, Policy, Surplus};
use crate::fabric::Fabric;

pub fn brain(config: &Config, fabric: &Fabric, boot: BootId) -> HostConfig {
    let host = HostId::of(&config.node.name);
    let first = config.links.first().or(None);
    HostConfig {
        host,
        boot,
        slot: config.slot_length(),
        horizon: usize::try_from(config.slot.horizon).unwrap_or(10),
        phase: config.phase(),
        relay: fabric.nic_mode(),
        // A job's hosts hear of each other only where their statuses travel.
        switches: config.session_like().map(|switch| HolderId::of(&switch.name)).collect(),
        ingress: fabric.ingresses(),
        policy: match config.schedule.policy {
            Policy::SrptP => PolicyName::SrptP,
            Policy::PrimalDual => PolicyName::PrimalDual,
            Policy::PrimalDualLiteral => PolicyName::PrimalDualLiteral,
            Policy::Fair => PolicyName::Fair,
        },
        promote_kappa: config.schedule.promote_kappa,
        fair_floor: config.schedule.fair_floor,
        fair_floor_alone: config.schedule.fair_floor_alone,
        fair_floor_brief: config.schedule.fair_floor_brief,
        newcomer_share: config.schedule.newcomer_share,
        delay_weight: config.schedule.delay_weight,
        price_mu: config.schedule.price_mu,
        probe_gain: config.schedule.probe_gain,
        history_slots: usize::try_from(config.schedule.history_slots).unwrap_or(4),
        events: config.schedule.events,
        work_conserving: config.schedule.work_conserving,
        chunk_lead: config.schedule.chunk_lead,
        floor: config.floor(),
        floor_ratio: config.enforce.floor_ratio,
        max_step_up: config.enforce.max_step_up,
        max_wait: config.max_wait(),
        stale_slots: u32::try_from(config.switch.stale_slots).unwrap_or(2),
        deadline_slots: u32::try_from(config.enforce.deadline_slots).unwrap_or(3),
        reserve: first.map_or(RESERVE, |link| link.reserve),
        reserves: reserves(fabric),
        surplus: match config.schedule.surplus {
            Surplus::Idle => SurplusRule::Idle,
            Surplus::Greedy => SurplusRule::Greedy,
            Surplus::Never => SurplusRule::Never,
            Surplus::Always => SurplusRule::Always,
        },
        ..HostConfig::new(host, boot)
    }
}

/// What is left free of each own link, both ways.
fn reserves(fabric: &Fabric) -> Vec<Reserve> {
    let own = fabric.links.iter().enumerate().filter_map(|(at, link)| Some((at, link, link.reserve?)));
    let both = own.flat_map(|(at, link, part)| {
        let links = [Some(link.egress), fabric.ingress(at).map(|hop| hop.link)];
        links.into_iter().flatten().map(move |link| Reserve { link, part })
    });
    both.collect()
}
