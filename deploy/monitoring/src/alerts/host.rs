//! Alerts about one host: its daemon, its clock, its kernel and its configuration.

use super::{H1, SLUICED, series};
use crate::rules::{Alert, Case, Severity};

pub fn alerts() -> Vec<Alert> {
    [process(), kernel(), pace(), configuration()].concat()
}

fn process() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceDown",
            expr: "up{job=\"sluiced\"} == 0",
            minutes: 2,
            severity: Severity::Warning,
            summary: "sluiced on {{ $labels.instance }} does not answer",
            description: "Its jobs run under ordinary TCP; training goes on. First: systemctl status sluiced, then journalctl -u sluiced.",
            case: Case {
                firing: vec![series("up{job=\"sluiced\",instance=\"h1:9605\"}", "0x60")],
                onset: 0,
                quiet: vec![
                    series("up{job=\"sluiced\",instance=\"h1:9605\"}", "1x60"),
                    series("up{job=\"node\",instance=\"h1:9100\"}", "0x60"),
                ],
                labels: vec![H1, SLUICED],
                value: "",
            },
        },
        Alert {
            name: "SluiceRestarting",
            expr: "changes(process_start_time_seconds{job=\"sluiced\"}[15m]) > 3",
            minutes: 0,
            severity: Severity::Warning,
            summary: "sluiced on {{ $labels.instance }} was started {{ $value }} times in 15 minutes",
            description: "Flows coast through each start; from the fifth crash within a minute it stays in bypass by itself. First: \
                          journalctl -u sluiced.",
            case: Case {
                firing: vec![series(
                    "process_start_time_seconds{job=\"sluiced\",instance=\"h1:9605\"}",
                    "10 10 70 130 190 250x60",
                )],
                onset: 5,
                quiet: vec![series(
                    "process_start_time_seconds{job=\"sluiced\",instance=\"h1:9605\"}",
                    "10 10 70 130 190x60",
                )],
                labels: vec![H1, SLUICED],
                value: "4",
            },
        },
        Alert {
            name: "SluiceCostHigh",
            expr: "rate(process_cpu_seconds_total{job=\"sluiced\"}[5m]) > 0.15",
            minutes: 10,
            severity: Severity::Warning,
            summary: "sluiced on {{ $labels.instance }} takes {{ $value | humanizePercentage }} of a core",
            description: "That time is missing to jobs. It schedules all the same. First: sluice top on the host, for the number of flows.",
            case: Case {
                firing: vec![series("process_cpu_seconds_total{job=\"sluiced\",instance=\"h1:9605\"}", "0+18x60")],
                onset: 3,
                quiet: vec![
                    series("process_cpu_seconds_total{job=\"sluiced\",instance=\"h1:9605\"}", "0+8x60"),
                    series("process_cpu_seconds_total{job=\"node\",instance=\"h1:9100\"}", "0+30x60"),
                ],
                labels: vec![H1, SLUICED],
                value: "30%",
            },
        },
        Alert {
            name: "SluiceNotScheduling",
            expr: "sluice_mode{mode=\"active\"} == 0 and on (instance) sluice_flows{state=\"observed\"} > 0",
            minutes: 60,
            severity: Severity::Info,
            summary: "{{ $labels.instance }} has flows of jobs and only looks at them",
            description: "They run under ordinary TCP, as before Sluice. Where that is not meant: sluice mode active on the host.",
            case: Case {
                firing: vec![
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "0x120"),
                    series("sluice_flows{job=\"sluiced\",instance=\"h1:9605\",state=\"observed\"}", "8x120"),
                ],
                onset: 0,
                quiet: vec![
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "0x120"),
                    series("sluice_flows{job=\"sluiced\",instance=\"h1:9605\",state=\"observed\"}", "0x120"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h2:9605\",mode=\"active\"}", "1x120"),
                    series("sluice_flows{job=\"sluiced\",instance=\"h2:9605\",state=\"observed\"}", "8x120"),
                ],
                labels: vec![H1, SLUICED, ("mode", "active")],
                value: "",
            },
        },
    ]
}

fn kernel() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceEnforcementFallback",
            expr: "sluice_enforcement_backend{backend!~\"struct_ops|struct_ops_nolink\"} == 1\n  \
                   and on (instance) sluice_mode{mode=\"active\"} == 1",
            minutes: 10,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} enforces by {{ $labels.backend }}, not by its congestion control",
            description: "setsockopt: flows follow orders less exactly; none: they run under ordinary TCP. \
                          First: sluice doctor on the host.",
            case: Case {
                firing: vec![
                    series(
                        "sluice_enforcement_backend{job=\"sluiced\",instance=\"h1:9605\",backend=\"setsockopt\"}",
                        "1x60",
                    ),
                    series(
                        "sluice_enforcement_backend{job=\"sluiced\",instance=\"h1:9605\",backend=\"struct_ops\"}",
                        "0x60",
                    ),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x60"),
                ],
                onset: 0,
                quiet: vec![
                    series(
                        "sluice_enforcement_backend{job=\"sluiced\",instance=\"h1:9605\",backend=\"struct_ops_nolink\"}",
                        "1x60",
                    ),
                    series("sluice_enforcement_backend{job=\"sluiced\",instance=\"h1:9605\",backend=\"none\"}", "0x60"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h1:9605\",mode=\"active\"}", "1x60"),
                    series("sluice_enforcement_backend{job=\"sluiced\",instance=\"h2:9605\",backend=\"none\"}", "1x60"),
                    series("sluice_mode{job=\"sluiced\",instance=\"h2:9605\",mode=\"active\"}", "0x60"),
                ],
                labels: vec![H1, SLUICED, ("backend", "setsockopt")],
                value: "",
            },
        },
        Alert {
            name: "SluiceFlowTableFull",
            expr: "increase(sluice_flow_table_full_total[5m]) > 0",
            minutes: 5,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} has more sockets than rows for them",
            description: "The sockets beyond run under ordinary TCP, beside managed ones. \
                          First: raise enforce.max_flows, then restart sluiced.",
            case: Case {
                firing: vec![series("sluice_flow_table_full_total{job=\"sluiced\",instance=\"h1:9605\"}", "0+2x60")],
                onset: 1,
                quiet: vec![series("sluice_flow_table_full_total{job=\"sluiced\",instance=\"h1:9605\"}", "7x60")],
                labels: vec![H1, SLUICED],
                value: "",
            },
        },
        Alert {
            name: "SluiceLossGuard",
            expr: "increase(sluice_loss_guard_activations_total[10m]) > 20",
            minutes: 5,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} capped flows because of loss {{ $value | humanize }} times in 10 minutes",
            description: "Those flows are held at what is delivered. First: sluice flows on the host, then the cable and the switch port \
                          that they share.",
            case: Case {
                firing: vec![series(
                    "sluice_loss_guard_activations_total{job=\"sluiced\",instance=\"h1:9605\"}",
                    "0+30x60",
                )],
                onset: 1,
                quiet: vec![series(
                    "sluice_loss_guard_activations_total{job=\"sluiced\",instance=\"h1:9605\"}",
                    "0+1x60",
                )],
                labels: vec![H1, SLUICED],
                value: "180",
            },
        },
    ]
}

fn pace() -> Vec<Alert> {
    vec![
        Alert {
            name: "SluiceClockUnsafe",
            expr: "sluice_clock_max_error_seconds > on (instance) (0.5 * sluice_slot_length_seconds)",
            minutes: 1,
            severity: Severity::Warning,
            summary: "the clock of {{ $labels.instance }} may be off by {{ $value | humanizeDuration }}",
            description: "More than half a slot: the host plans by its own links only, without the others. First: chronyc tracking, then \
                          sluice clock.",
            case: Case {
                firing: vec![
                    series("sluice_clock_max_error_seconds{job=\"sluiced\",instance=\"h1:9605\"}", "16x60"),
                    series("sluice_slot_length_seconds{job=\"sluiced\",instance=\"h1:9605\"}", "0.06x60"),
                ],
                onset: 0,
                quiet: vec![
                    series("sluice_clock_max_error_seconds{job=\"sluiced\",instance=\"h1:9605\"}", "0.029x60"),
                    series("sluice_slot_length_seconds{job=\"sluiced\",instance=\"h1:9605\"}", "0.06x60"),
                ],
                labels: vec![H1],
                value: "16s",
            },
        },
        Alert {
            name: "SluiceSlotsMissed",
            expr: "instance:sluice_slots_missed:ratio_rate5m > 0.01",
            minutes: 10,
            severity: Severity::Warning,
            summary: "{{ $labels.instance }} misses {{ $value | humanizePercentage }} of its slots",
            description: "Orders change later than planned, and capacity stays idle meanwhile; none expires. First: sluice status on the \
                          host: is its loop a real-time thread, and who takes the processors?",
            case: Case {
                firing: vec![
                    series("sluice_slots_total{job=\"sluiced\",instance=\"h1:9605\"}", "0+1000x60"),
                    series(
                        "sluice_slots_missed_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"late\"}",
                        "0+30x60",
                    ),
                    series(
                        "sluice_slots_missed_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"stopped\"}",
                        "0+20x60",
                    ),
                ],
                onset: 1,
                quiet: vec![
                    series("sluice_slots_total{job=\"sluiced\",instance=\"h1:9605\"}", "0+1000x60"),
                    series("sluice_slots_missed_total{job=\"sluiced\",instance=\"h1:9605\",reason=\"late\"}", "0+9x60"),
                ],
                labels: vec![H1],
                value: "5%",
            },
        },
        Alert {
            name: "SluiceOrdersNotFollowed",
            expr: "instance:sluice_order_error_ratio:p99_rate5m > 0.2\n  and on (instance) sluice_flows{state=\"managed\"} > 0",
            minutes: 10,
            severity: Severity::Warning,
            summary: "flows of {{ $labels.instance }} are far from their orders",
            description: "One in a hundred flows and slots is off by more than {{ $value | humanizePercentage }}: turns blur, and jobs \
                          gain less. First: sluice doctor on the host, then the rate of its link in the configuration.",
            case: Case {
                firing: vec![
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"0.2\"}",
                        "0+900x60",
                    ),
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"0.5\"}",
                        "0+1000x60",
                    ),
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"+Inf\"}",
                        "0+1000x60",
                    ),
                    series("sluice_flows{job=\"sluiced\",instance=\"h1:9605\",state=\"managed\"}", "8x60"),
                ],
                onset: 1,
                quiet: vec![
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"0.1\"}",
                        "0+995x60",
                    ),
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"0.5\"}",
                        "0+1000x60",
                    ),
                    series(
                        "sluice_order_error_ratio_bucket{job=\"sluiced\",instance=\"h1:9605\",le=\"+Inf\"}",
                        "0+1000x60",
                    ),
                    series("sluice_flows{job=\"sluiced\",instance=\"h1:9605\",state=\"managed\"}", "8x60"),
                ],
                labels: vec![H1],
                value: "47%",
            },
        },
    ]
}

fn configuration() -> Vec<Alert> {
    vec![Alert {
        name: "SluiceConfigRejected",
        expr: "sluice_config_last_reload_successful == 0",
        minutes: 1,
        severity: Severity::Warning,
        summary: "{{ $labels.instance }} refused its new configuration",
        description: "The earlier one stays in force. A restart with the new one would not start. First: sluiced --check on the host.",
        case: Case {
            firing: vec![series("sluice_config_last_reload_successful{job=\"sluiced\",instance=\"h1:9605\"}", "0x60")],
            onset: 0,
            quiet: vec![series("sluice_config_last_reload_successful{job=\"sluiced\",instance=\"h1:9605\"}", "1x60")],
            labels: vec![H1, SLUICED],
            value: "",
        },
    }]
}
