//! A dashboard as data, and as the JSON that Grafana reads.
//!
//! Panels are placed row by row in the order in which they are listed. A colour that is not one series' own means a threshold.

use serde_json::{Value, json};

use crate::variables::Variable;

/// The form of Grafana's files that this is.
pub const SCHEMA_VERSION: u32 = 39;
/// Columns of Grafana's grid.
pub const COLUMNS: u32 = 24;
/// Panels of a dashboard at most: more are not read.
pub const MAX_PANELS: usize = 14;

/// A dashboard.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// Of its file, and of its `uid` after `sluice-`; never changed, since links and bookmarks go by it.
    pub name: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// Which question it answers.
    pub description: &'static str,
    /// What is chosen at its top, after the data source.
    pub variables: Vec<Variable>,
    /// Series that are there in the step in which a host changed its mode.
    pub annotation: String,
    /// In reading order.
    pub panels: Vec<Panel>,
}

/// How a panel shows its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lines over time.
    Lines,
    /// Areas over time, one upon the other.
    Stacked,
    /// The present values.
    Stat,
    /// The present values in a table, the largest first.
    Table,
    /// A distribution over time, from the buckets of a histogram.
    Heatmap,
    /// The distribution of many series' values over time.
    Spread,
}

/// The unit of an axis, as Grafana names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Bits,
    /// Bytes per second: of bucket bounds, which nothing multiplies.
    Bytes,
    /// Seconds.
    Seconds,
    /// A part of one.
    Ratio,
    /// So many.
    Count,
    /// So many per second.
    PerSecond,
}

impl Unit {
    /// Grafana's word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Unit::Bits => "bps",
            Unit::Bytes => "Bps",
            Unit::Seconds => "s",
            Unit::Ratio => "percentunit",
            Unit::Count => "short",
            Unit::PerSecond => "cps",
        }
    }
}

/// From this value on it is so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The least value that counts.
    pub from: f64,
    /// Grafana's name of the colour.
    pub color: &'static str,
}

/// A query of a panel.
#[derive(Clone, Debug)]
pub struct Query {
    /// PromQL.
    pub expr: String,
    /// The name of each series.
    pub legend: &'static str,
    /// In a stacked panel: a line that is not stacked.
    pub apart: bool,
}

/// A query with the names of its series.
pub fn query(expr: impl Into<String>, legend: &'static str) -> Query {
    Query { expr: expr.into(), legend, apart: false }
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What stands above it.
    pub title: &'static str,
    /// What is good, and what to do when it is not.
    pub description: &'static str,
    /// How it shows its series.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// Columns, of [`COLUMNS`].
    pub width: u32,
    /// What it asks for.
    pub queries: Vec<Query>,
    /// Where values begin to be bad; none: colours only tell series apart.
    pub thresholds: Vec<Threshold>,
}

impl Panel {
    /// A panel of half the width without thresholds.
    pub fn new(title: &'static str, kind: Kind, unit: Unit, description: &'static str, queries: Vec<Query>) -> Panel {
        Panel { title, description, kind, unit, width: COLUMNS / 2, queries, thresholds: Vec::new() }
    }

    /// The same with so many columns.
    pub fn wide(mut self, width: u32) -> Panel {
        self.width = width;
        self
    }

    /// The same, orange from this value on.
    pub fn bad_from(mut self, from: f64) -> Panel {
        self.thresholds.push(Threshold { from, color: "orange" });
        self
    }

    const fn height(&self) -> u32 {
        match self.kind {
            Kind::Stat => 5,
            _ => 8,
        }
    }
}

/// Every panel's place: column and row of its corner.
fn places(panels: &[Panel]) -> Vec<(u32, u32)> {
    let (mut x, mut y, mut tallest) = (0, 0, 0);
    let mut places = Vec::new();
    for panel in panels {
        if x + panel.width > COLUMNS {
            (x, y, tallest) = (0, y + tallest, 0);
        }
        places.push((x, y));
        (x, tallest) = (x + panel.width, tallest.max(panel.height()));
    }
    places
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

impl Dashboard {
    /// The file that Grafana imports.
    pub fn to_json(&self) -> Value {
        let panels = self.panels.iter().zip(places(&self.panels)).zip(1_u32..);
        let panels: Vec<Value> = panels.map(|((panel, place), id)| panel.to_json(id, place)).collect();
        let variables: Vec<Value> = [crate::variables::datasource()]
            .into_iter()
            .chain(self.variables.iter().map(|variable| variable.to_json(datasource())))
            .collect();
        let links = crate::dashboards::NAMES.iter().filter(|name| name.name != self.name).map(|other| {
            json!({
                "type": "link", "title": other.title, "icon": "dashboard", "tooltip": "", "tags": [],
                "url": format!("/d/{}?${{datasource:queryparam}}&${{cluster:queryparam}}", uid(other.name)),
                "keepTime": true, "includeVars": false, "targetBlank": false, "asDropdown": false,
            })
        });
        json!({
            "uid": uid(self.name),
            "title": self.title,
            "description": self.description,
            "tags": ["sluice"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": links.collect::<Vec<_>>(),
            "templating": {"list": variables},
            "annotations": {"list": [{
                "name": "Mode changes", "enable": true, "iconColor": "purple", "datasource": datasource(),
                "expr": self.annotation, "titleFormat": "{{instance}}: {{mode}}", "textFormat": "mode is {{mode}} from here on",
            }]},
            "panels": panels,
        })
    }
}

/// What links and bookmarks go by.
pub fn uid(name: &str) -> String {
    format!("sluice-{name}")
}

impl Panel {
    fn to_json(&self, id: u32, (x, y): (u32, u32)) -> Value {
        let kind = match self.kind {
            Kind::Lines | Kind::Stacked => "timeseries",
            Kind::Stat => "stat",
            Kind::Table => "table",
            Kind::Heatmap | Kind::Spread => "heatmap",
        };
        let mut panel = json!({
            "id": id,
            "type": kind,
            "title": self.title,
            "description": self.description,
            "datasource": datasource(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height()},
            "targets": self.targets(),
            "fieldConfig": {"defaults": self.field(), "overrides": self.overrides()},
            "options": self.options(),
        });
        if self.kind == Kind::Table {
            panel["transformations"] = json!([{"id": "organize", "options": {"excludeByName": {"Time": true}}}]);
        }
        panel
    }

    fn targets(&self) -> Vec<Value> {
        let format = match self.kind {
            Kind::Heatmap => "heatmap",
            Kind::Table => "table",
            _ => "time_series",
        };
        let instant = matches!(self.kind, Kind::Stat | Kind::Table);
        let target = |(letter, query): (char, &Query)| {
            json!({
                "refId": letter.to_string(), "datasource": datasource(), "editorMode": "code", "expr": query.expr,
                "legendFormat": query.legend, "format": format, "instant": instant, "range": !instant,
            })
        };
        ('A'..='Z').zip(&self.queries).map(target).collect()
    }

    fn field(&self) -> Value {
        let steps = self.thresholds.iter().map(|step| json!({"value": step.from, "color": step.color}));
        let base = json!({"value": null, "color": "green"});
        let steps: Vec<Value> = [base].into_iter().chain(steps).collect();
        let (fill, stacking) = if self.kind == Kind::Stacked { (30, "normal") } else { (0, "none") };
        let mut field = json!({"unit": self.unit.word(), "min": 0});
        match self.kind {
            Kind::Lines | Kind::Stacked => {
                let shown = if self.thresholds.is_empty() { "off" } else { "line" };
                field["color"] = json!({"mode": "palette-classic"});
                field["custom"] = json!({
                    "drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "never",
                    "stacking": {"mode": stacking, "group": "A"}, "thresholdsStyle": {"mode": shown},
                });
            }
            _ if self.thresholds.is_empty() => field["color"] = json!({"mode": "fixed", "fixedColor": "text"}),
            _ => field["color"] = json!({"mode": "thresholds"}),
        }
        if !self.thresholds.is_empty() {
            field["thresholds"] = json!({"mode": "absolute", "steps": steps});
        }
        field
    }

    fn overrides(&self) -> Vec<Value> {
        let apart = ('A'..='Z').zip(&self.queries).filter(|(_, query)| query.apart);
        let line = |(letter, _): (char, &Query)| {
            json!({
                "matcher": {"id": "byFrameRefID", "options": letter.to_string()},
                "properties": [
                    {"id": "custom.stacking", "value": {"mode": "none", "group": "A"}},
                    {"id": "custom.fillOpacity", "value": 0},
                ],
            })
        };
        apart.map(line).collect()
    }

    fn options(&self) -> Value {
        match self.kind {
            Kind::Lines | Kind::Stacked => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Kind::Stat => json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "textMode": "value_and_name", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
                "colorMode": if self.thresholds.is_empty() { "none" } else { "value" },
            }),
            Kind::Table => json!({
                "showHeader": true, "cellHeight": "sm", "sortBy": [{"displayName": "Value", "desc": true}],
            }),
            Kind::Heatmap | Kind::Spread => json!({
                "calculate": self.kind == Kind::Spread,
                "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Blues", "steps": 32, "exponent": 0.5, "reverse": false},
                "yAxis": {"unit": self.unit.word()},
                "tooltip": {"show": true, "yHistogram": false},
                "legend": {"show": true},
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_from_the_left_and_as_high_as_their_highest_panel() {
        let panel = |kind, width| Panel::new("", kind, Unit::Count, "", vec![]).wide(width);
        let panels = [panel(Kind::Stat, 12), panel(Kind::Lines, 12), panel(Kind::Stat, 16), panel(Kind::Stat, 16)];
        assert_eq!(places(&panels), [(0, 0), (12, 0), (0, 8), (0, 13)]);
    }
}
