//! deploy/kubernetes/: valid by the API's own schemas, and no more and no less privileged than the unit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use super::root;

const DIR: &str = "deploy/kubernetes";
/// The release of Kubernetes whose schemas are asked.
const RELEASE: &str = "1.34";

fn read(file: &str) -> Value {
    let text = fs::read_to_string(root(DIR).join(file)).expect("a manifest");
    let mut documents = serde_yaml_ng::Deserializer::from_str(&text);
    let first = Value::deserialize(documents.next().expect("a document")).expect("YAML");
    assert!(documents.next().is_none(), "{file} has one document");
    first
}

fn manifests() -> Vec<PathBuf> {
    let entries = fs::read_dir(root(DIR)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "yaml")).collect();
    files.sort();
    files
}

/// The values of a directive of a unit, without those that its later empty lines take back.
fn directive(unit: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(root("deploy/systemd").join(unit)).expect("a unit");
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn capabilities_of(unit: &str) -> BTreeSet<String> {
    let bounding = directive(unit, "CapabilityBoundingSet");
    assert_eq!(bounding, directive(unit, "AmbientCapabilities"), "{unit}");
    bounding.iter().map(|name| name.trim_start_matches("CAP_").to_owned()).collect()
}

fn container(manifest: &Value) -> &Value {
    &manifest["spec"]["template"]["spec"]["containers"][0]
}

fn added(manifest: &Value) -> BTreeSet<String> {
    let capabilities = &container(manifest)["securityContext"]["capabilities"];
    assert_eq!(capabilities["drop"], serde_json::json!(["ALL"]));
    let add = capabilities["add"].as_array().cloned().unwrap_or_default();
    add.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[test]
fn the_daemon_set_may_do_what_the_unit_may() {
    let set = read("daemonset.yaml");
    let unit = "sluiced.service";
    assert_eq!(added(&set), capabilities_of(unit));
    let for_pods = capabilities_of("sluiced-containers.conf");
    let mut with = capabilities_of(unit);
    with.extend(for_pods);
    assert_eq!(added(&read("pod-networks.yaml")), with);
    let security = &container(&set)["securityContext"];
    assert_eq!((&security["privileged"], &security["readOnlyRootFilesystem"]), (&false.into(), &true.into()));
    assert_eq!(&security["allowPrivilegeEscalation"], &false, "NoNewPrivileges of the unit");
    assert_eq!(directive(unit, "NoNewPrivileges"), ["yes"]);
    let limits = &container(&set)["resources"]["limits"];
    assert_eq!((directive(unit, "MemoryMax"), directive(unit, "CPUQuota")), (vec!["256M".into()], vec!["100%".into()]));
    assert_eq!((&limits["memory"], &limits["cpu"]), (&"256Mi".into(), &"1".into()));
    let arguments = container(&set)["args"].as_array().cloned().unwrap_or_default();
    let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
    assert_eq!(directive(unit, "ExecStart")[1..], arguments[..]);
    let pod = &set["spec"]["template"]["spec"];
    for (key, is) in [("hostNetwork", true), ("hostPID", true), ("automountServiceAccountToken", false)] {
        assert_eq!(pod[key], is, "{key}");
    }
    assert_eq!(pod["serviceAccountName"], Value::Null);
    assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "10%");
}

#[test]
fn every_mount_has_a_volume_and_the_places_are_those_of_the_daemon() {
    for file in ["daemonset.yaml", "example-job.yaml"] {
        let manifest = read(file);
        let names = |list: &Value| -> BTreeSet<String> {
            list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
        };
        let volumes = names(&manifest["spec"]["template"]["spec"]["volumes"]);
        assert_eq!(names(&container(&manifest)["volumeMounts"]), volumes, "{file}");
    }
    let defaults = Command::new(env!("CARGO_BIN_EXE_sluiced")).arg("--defaults").output().expect("it runs").stdout;
    let defaults: toml::Table = String::from_utf8(defaults).expect("text").parse().expect("TOML");
    let place = |key: &str| PathBuf::from(defaults["node"][key].as_str().expect("a path"));
    let set = read("daemonset.yaml");
    let mounts = container(&set)["volumeMounts"].as_array().cloned().unwrap_or_default();
    let mounted = |path: &Path| {
        mounts.iter().any(|mount| mount["mountPath"].as_str() == path.to_str() && mount["readOnly"] != true)
    };
    assert!(mounted(&place("run_dir")) && mounted(&place("state_dir")) && mounted(Path::new("/sys/fs/bpf")));
    let listen = defaults["http"]["listen"][0].as_str().expect("an address");
    let port: u16 = listen.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &container(&set)[probe]["httpGet"];
        assert_eq!((&get["port"], &get["host"]), (&port.into(), &"127.0.0.1".into()), "{probe}");
        assert_eq!(get["path"], if probe == "readinessProbe" { "/readyz" } else { "/livez" });
    }
    // Pods of jobs see the pages where the daemon has them.
    let job = read("example-job.yaml");
    let pages = place("run_dir").join("progress");
    let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    assert!(volumes.iter().any(|volume| volume["hostPath"]["path"].as_str() == pages.to_str()));
}

#[test]
fn the_configuration_in_it_is_valid_and_what_kustomize_lists_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let map = read("configmap.yaml");
    let file = dir.path().join("sluiced.toml");
    fs::write(&file, map["data"]["sluiced.toml"].as_str().expect("a configuration")).expect("written");
    let output =
        Command::new(env!("CARGO_BIN_EXE_sluiced")).arg("--config").arg(&file).args(["--check", "--offline"]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let set = read("daemonset.yaml");
    let volumes = set["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == map["metadata"]["name"]));
    let kustomization = read("kustomization.yaml");
    let listed = kustomization["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let patches = kustomization["patches"].as_array().into_iter().flatten().filter_map(|patch| patch["path"].as_str());
    for name in listed.chain(patches) {
        assert!(root(DIR).join(name).is_file(), "{name}");
    }
    let monitor = read("podmonitor.yaml");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], set["spec"]["selector"]["matchLabels"]);
    assert_eq!(
        set["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"],
        set["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
    );
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["path"], "/metrics");
}

/// `kubernetes-validate` with the schemas of [`RELEASE`].
fn validate(file: &Path) -> std::process::Output {
    let mut command = Command::new("kubernetes-validate");
    command.args(["--strict", "-k", RELEASE]).arg(file).output().expect("it runs")
}

#[test]
fn the_schemas_of_the_api_take_them_and_refuse_a_misspelt_key() {
    if Command::new("kubernetes-validate").arg("--version").output().is_err() {
        sluice_skip::skip!(Thing, "no kubernetes-validate here; pip install kubernetes-validate brings it");
        return;
    }
    let mut seen = 0;
    for file in manifests() {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        // Not of the API itself: the operator's resource, and kustomize's own files.
        if ["podmonitor.yaml", "kustomization.yaml", "pod-networks.yaml"].contains(&name.as_str()) {
            continue;
        }
        let output = validate(&file);
        assert!(
            output.status.success(),
            "{name}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
    let dir = tempfile::tempdir().expect("a directory");
    let wrong = dir.path().join("wrong.yaml");
    let text = fs::read_to_string(root(DIR).join("daemonset.yaml")).expect("a manifest");
    fs::write(&wrong, text.replace("hostNetwork: true", "hostNetwrk: true")).expect("written");
    assert!(!validate(&wrong).status.success(), "a misspelt key");
}
