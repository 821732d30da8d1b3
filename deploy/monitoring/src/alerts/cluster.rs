//! Alerts about what hosts and switches are to each other: views, time grids, certificates, configurations, and whether jobs
//! take turns.

use super::{H1, SLUICED, series};
use crate::rules::{Alert, Case, Severity};

pub fn alerts() -> Vec<Alert> {
    [switches(), certificates(), agreement()].concat()
}

fn switches() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceSwitchDown",
            expr: "up{job=\"sluice-switch\"} == 0",
            minutes: 2,
            severity: Severity::Warning,
            summary: "sluice-switch on {{ $labels.instance }} does not answer",
            description: "Hosts plan the links of its switches by their own tables, without each other's promises. First: systemctl status \
                          sluice-switch.",
            case: Case {
                firing: vec![series("up{job=\"sluice-switch\",instance=\"s1:9606\"}", "0x60")],
                onset: 0,
                quiet: vec![series("up{job=\"sluice-switch\",instance=\"s1:9606\"}", "1x60")],
                labels: vec![("instance", "s1:9606"), ("job", "sluice-switch")],
                value: "",
            },
        },
        Alert {
            name: "SluiceSwitchUnreachable",
            expr: "sluice_switch_up == 0 and on (instance) sluice_condition{code=\"switch-unreachable\"} == 1",
            minutes: 1,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} does not reach {{ $labels.switch }}",
            description: "Its links are planned by this host's own table, without other hosts' promises. \
                          First: sluice switches on the host.",
            case: Case {
                firing: vec![
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\"}", "0x60"),
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf8\"}", "1x60"),
                    series(
                        "sluice_condition{job=\"sluiced\",instance=\"h1:9605\",code=\"switch-unreachable\"}",
                        "1x60",
                    ),
                ],
                onset: 0,
                quiet: vec![
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\"}", "0x60"),
                    series(
                        "sluice_condition{job=\"sluiced\",instance=\"h1:9605\",code=\"switch-unreachable\"}",
                        "0x60",
                    ),
                ],
                labels: vec![H1, SLUICED, ("switch", "leaf7")],
                value: "",
            },
        },
        Alert {
            name: "SluiceFeedbackStale",
            expr: "sluice_switch_view{state=\"local\"} == 1\n  \
                   and on (instance, switch) sluice_switch_up == 1\n  \
                   and on (instance) sluice_mode{mode=\"active\"} == 1",
            minutes: 1,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} has heard nothing of use from {{ $labels.switch }} for longer than the horizon",
            description: "It is connected, and its view is too old to count: links fall to an equal share. \
                          First: sluice switches and sluice \
                          clock on the host.",
            case: Case {
                firing: vec![
                    series(
                        "sluice_switch_view{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\",state=\"local\"}",
                        "1x60",
                    ),
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\"}", "1x60"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x60"),
                ],
                onset: 0,
                quiet: vec![
                    series(
                        "sluice_switch_view{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\",state=\"local\"}",
                        "0x60",
                    ),
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h1:9605\",switch=\"leaf7\"}", "1x60"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x60"),
                    series(
                        "sluice_switch_view{job=\"sluiced\",instance=\"h2:9605\",switch=\"leaf7\",state=\"local\"}",
                        "1x60",
                    ),
                    series("sluice_switch_up{job=\"sluiced\",instance=\"h2:9605\",switch=\"leaf7\"}", "1x60"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h2:9605\",mode=\"active\"}", "0x60"),
                ],
                labels: vec![H1, SLUICED, ("switch", "leaf7"), ("state", "local")],
                value: "",
            },
        },
        Alert {
            name: "SluiceSlotGuardRejects",
            expr: "rate(sluice_switch_rejects_total{reason=\"slot_guard\"}[5m]) > 0",
            minutes: 2,
            severity: Severity::Warning,
            summary: "switches refuse what {{ $labels.instance }} announces, as of another time",
            description: "Its promises do not count, so others plan over it. Its clock or theirs is off, or slots differ in length. First: \
                          sluice clock on the host.",
            case: Case {
                firing: vec![series(
                    "sluice_switch_rejects_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"slot_guard\"}",
                    "0+5x60",
                )],
                onset: 1,
                quiet: vec![
                    series(
                        "sluice_switch_rejects_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"slot_guard\"}",
                        "4x60",
                    ),
                    series(
                        "sluice_switch_rejects_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"old\"}",
                        "0+5x60",
                    ),
                ],
                labels: vec![H1, SLUICED, ("reason", "slot_guard")],
                value: "",
            },
        },
    ]
}

/// A week is left and nothing was renewed for a day, which certificates of an hour always are; or it is over.
fn certificates() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceCertificateEnds",
            expr: "sluice_certificate_expiry_timestamp_seconds < time() + 604800\n    \
                   unless changes(sluice_certificate_expiry_timestamp_seconds[1d]) > 0\n  \
                   or sluice_certificate_expiry_timestamp_seconds < time()",
            minutes: 10,
            severity: Severity::Warning,
            summary: "the certificate of {{ $labels.instance }} ends within a week, or is over",
            description: "Once it is over, no switch and no other host listens to this one, and its links are planned by its own table. \
                          First: sluice tls show on the host.",
            case: Case {
                firing: vec![
                    series(
                        "sluice_certificate_expiry_timestamp_seconds{job=\"sluiced\",instance=\"h1:9605\"}",
                        "600000x60",
                    ),
                    series(
                        "sluice_certificate_expiry_timestamp_seconds{job=\"sluiced\",instance=\"h2:9605\"}",
                        "700000x60",
                    ),
                ],
                onset: 0,
                quiet: vec![
                    series(
                        "sluice_certificate_expiry_timestamp_seconds{job=\"sluiced\",instance=\"h1:9605\"}",
                        "700000x60",
                    ),
                    series(
                        "sluice_certificate_expiry_timestamp_seconds{job=\"sluiced\",instance=\"h2:9605\"}",
                        "600+60x60",
                    ),
                ],
                labels: vec![H1, SLUICED],
                value: "",
            },
        },
        Alert {
            name: "SluiceSwitchCertificateEnds",
            expr: "sluice_switchd_certificate_expiry_timestamp_seconds < time() + 604800\n    \
                   unless changes(sluice_switchd_certificate_expiry_timestamp_seconds[1d]) > 0\n  \
                   or sluice_switchd_certificate_expiry_timestamp_seconds < time()",
            minutes: 10,
            severity: Severity::Warning,
            summary: "the certificate of sluice-switch on {{ $labels.instance }} ends within a week, or is over",
            description: "Once it is over, all hosts do without its tables and plan the links of its switches by their own. \
                          First: sluice tls show on its machine.",
            case: Case {
                // Renewed in the first minute, so that what is left says nothing; and over in the fifth.
                firing: vec![series(
                    "sluice_switchd_certificate_expiry_timestamp_seconds{job=\"sluice-switch\",instance=\"s1:9606\"}",
                    "200 299x60",
                )],
                onset: 5,
                quiet: vec![
                    series(
                        "sluice_switchd_certificate_expiry_timestamp_seconds{job=\"sluice-switch\",instance=\"s1:9606\"}",
                        "700000x60",
                    ),
                    series(
                        "sluice_switchd_certificate_expiry_timestamp_seconds{job=\"sluice-switch\",instance=\"s2:9606\"}",
                        "600+60x60",
                    ),
                ],
                labels: vec![("instance", "s1:9606"), ("job", "sluice-switch")],
                value: "",
            },
        },
    ]
}

fn agreement() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceConfigDrift",
            expr: "count by (cluster) (count_values by (cluster) (\"config_hash\",\n    \
                   sluice_config_hash * on (instance) group_left (cluster) sluice_cluster_info)) > 1\n  \
                   or count by (cluster) (count by (cluster, slot_ms, horizon) (sluice_cluster_info)) > 1",
            minutes: 30,
            severity: Severity::Warning,
            summary: "hosts of cluster {{ $labels.cluster }} have {{ $value }} different configurations",
            description: "Hosts that differ in slot.length_ms or slot.horizon do not listen to each other; other \
                          differences make them plan \
                          by different rules. First: the panel Configurations of the dashboard, then sluiced --check on a host of the \
                          smaller group.",
            case: Case {
                firing: vec![
                    series("sluice_config_hash{job=\"sluiced\",instance=\"h1:9605\"}", "281474976710655x90"),
                    series("sluice_config_hash{job=\"sluiced\",instance=\"h2:9605\"}", "281474976710654x90"),
                    series(
                        "sluice_cluster_info{job=\"sluiced\",instance=\"h1:9605\",cluster=\"c\",slot_ms=\"60\",horizon=\"10\"}",
                        "1x90",
                    ),
                    series(
                        "sluice_cluster_info{job=\"sluiced\",instance=\"h2:9605\",cluster=\"c\",slot_ms=\"60\",horizon=\"10\"}",
                        "1x90",
                    ),
                ],
                onset: 0,
                quiet: vec![
                    series("sluice_config_hash{job=\"sluiced\",instance=\"h1:9605\"}", "7x90"),
                    series("sluice_config_hash{job=\"sluiced\",instance=\"h2:9605\"}", "7x90"),
                    series("sluice_config_hash{job=\"sluiced\",instance=\"h3:9605\"}", "8x90"),
                    series(
                        "sluice_cluster_info{job=\"sluiced\",instance=\"h1:9605\",cluster=\"c\",slot_ms=\"60\",horizon=\"10\"}",
                        "1x90",
                    ),
                    series(
                        "sluice_cluster_info{job=\"sluiced\",instance=\"h2:9605\",cluster=\"c\",slot_ms=\"60\",horizon=\"10\"}",
                        "1x90",
                    ),
                    series(
                        "sluice_cluster_info{job=\"sluiced\",instance=\"h3:9605\",cluster=\"d\",slot_ms=\"60\",horizon=\"10\"}",
                        "1x90",
                    ),
                ],
                labels: vec![("cluster", "c")],
                value: "2",
            },
        },
        Alert {
            name: "SluiceNoStagger",
            expr: "instance_link:sluice_link_overlap:ratio_rate5m > 0.9\n  and on (instance) sluice_mode{mode=\"active\"} == 1",
            minutes: 60,
            severity: Severity::Info,
            summary: "jobs on {{ $labels.link }} of {{ $labels.instance }} send at once {{ $value | humanizePercentage }} of the time",
            description: "Sluice works, and they gain nothing by it: nobody computes while the other sends. First: sluice timeline on the \
                          host; then place other jobs together.",
            case: Case {
                firing: vec![
                    series(
                        "sluice_link_overlap_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth0\"}",
                        "0+57x120",
                    ),
                    series(
                        "sluice_link_busy_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth0\"}",
                        "0+60x120",
                    ),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x120"),
                ],
                onset: 1,
                quiet: vec![
                    series(
                        "sluice_link_overlap_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth0\"}",
                        "0+20x120",
                    ),
                    series(
                        "sluice_link_busy_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth0\"}",
                        "0+60x120",
                    ),
                    series(
                        "sluice_link_overlap_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth1\"}",
                        "0x120",
                    ),
                    series(
                        "sluice_link_busy_seconds_total{job=\"sluiced\",instance=\"h1:9605\",link=\"eth1\"}",
                        "0x120",
                    ),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x120"),
                ],
                labels: vec![H1, ("link", "eth0")],
                value: "95%",
            },
        },
    ]
}
