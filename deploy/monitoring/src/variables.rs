//! What a reader chooses at the top of a dashboard.

use serde_json::{Value, json};

/// A choice among the values of a label.
#[derive(Clone, Debug)]
pub struct Variable {
    /// By which queries name it.
    pub name: &'static str,
    /// What stands beside it.
    pub title: &'static str,
    /// The series in which values are looked for.
    pub selector: String,
    /// The label they are values of.
    pub label: &'static str,
    /// Several may be chosen, and all are at first.
    pub many: bool,
}

/// Which clusters are shown.
pub fn clusters(metric: &str) -> Variable {
    Variable { name: "cluster", title: "Cluster", selector: metric.into(), label: "cluster", many: true }
}

/// Which processes are shown, of those that say of themselves which cluster they belong to in this metric.
pub fn instances(metric: &str, title: &'static str, many: bool) -> Variable {
    let selector = format!("{metric}{{cluster=~\"$cluster\"}}");
    Variable { name: "instance", title, selector, label: "instance", many }
}

/// Which job is shown.
pub fn job_id() -> Variable {
    let selector = "sluice_job_info".into();
    Variable { name: "job_id", title: "Job", selector, label: "job_id", many: false }
}

/// The Prometheus that is asked.
pub fn datasource() -> Value {
    json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "regex": "",
        "hide": 0, "refresh": 1, "multi": false, "includeAll": false, "options": [], "current": {},
    })
}

impl Variable {
    /// As it stands in a dashboard.
    pub fn to_json(&self, datasource: Value) -> Value {
        let values = format!("label_values({}, {})", self.selector, self.label);
        let mut variable = json!({
            "name": self.name, "label": self.title, "type": "query", "datasource": datasource, "definition": values,
            "query": {"query": values, "refId": self.name}, "regex": "", "hide": 0, "refresh": 2, "sort": 1,
            "multi": self.many, "includeAll": self.many, "options": [], "current": {},
        });
        if self.many {
            variable["allValue"] = json!(".*");
            variable["current"] = json!({"text": ["All"], "value": ["$__all"], "selected": true});
        }
        variable
    }
}
