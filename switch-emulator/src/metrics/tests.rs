//! The metrics: that the documented ones are those that are told, and that a page of them has a bound.

use prometheus::proto::MetricType;
use sluice_monitoring::reference::{self, Row};
use sluice_schedule::BootId;

use super::*;

fn rows(collector: &dyn Collector) -> Vec<Row> {
    // Both tell of each metric, in one order; a description has the labels where there is no series yet.
    let (families, descriptions) = (collector.collect(), collector.desc());
    let row = |(family, description): (&prometheus::proto::MetricFamily, &&prometheus::core::Desc)| Row {
        name: description.fq_name.clone(),
        kind: match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::HISTOGRAM => "histogram",
            _ => "gauge",
        },
        labels: description.variable_labels.clone(),
        help: description.help.clone(),
    };
    families.iter().zip(&descriptions).map(row).collect()
}

#[test]
fn the_documentation_lists_every_metric() {
    let tables = Tables::new(&Config::default(), BootId::default(), None);
    let metrics = Metrics::new(&Config::default(), None, Refusals::default()).unwrap();
    let plain: [&dyn Collector; 4] = [&metrics.exchange, &metrics.askers, &metrics.unanswered, &metrics.realtime];
    let mut all: Vec<Row> = plain.into_iter().flat_map(rows).collect();
    let gathered = metrics.registry.gather();
    all.extend(
        gathered
            .iter()
            .filter(|family| family.name().ends_with("peers_open") || family.name().ends_with("unauthenticated"))
            .map(|family| Row {
                name: family.name().to_owned(),
                kind: "gauge",
                labels: Vec::new(),
                help: family.help().to_owned(),
            }),
    );
    assert_eq!(all.len(), gathered.len(), "what the registry holds is listed");
    let made = [
        snapshot(&tables).unwrap(),
        identity(&Refusals::default(), None).unwrap(),
        forwarded(&Tally::default()).unwrap(),
        vec![heard(&[]).unwrap()],
    ];
    all.extend(made.into_iter().flatten().flat_map(|collector| rows(&*collector)));
    all.sort();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let made = reference::with_table(&page, "sluice-switch", &reference::table(&all)).unwrap();
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&file, &made).unwrap();
    } else {
        assert!(page == made, "docs/metrics.md is not what is exported: SLUICE_UPDATE_EXPECTED=1 writes it anew");
    }
}
