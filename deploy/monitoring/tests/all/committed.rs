//! The files that stand in this folder are those that are made. `SLUICE_UPDATE_EXPECTED=1 cargo test -p sluice-monitoring` writes
//! them anew; read the difference before committing it.

use std::path::Path;

#[test]
fn the_committed_files_are_what_is_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in sluice_monitoring::files() {
        let path = folder.join(&file.path);
        if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
            std::fs::write(&path, &file.text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == file.text,
            "{} is not what is made: SLUICE_UPDATE_EXPECTED=1 writes it anew",
            path.display()
        );
    }
    // Nor do others lie beside them that nobody makes.
    let made: Vec<String> = sluice_monitoring::files().into_iter().map(|file| file.path).collect();
    for entry in std::fs::read_dir(folder.join("dashboards")).unwrap() {
        let name = format!("dashboards/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(made.contains(&name), "{name} is made by nobody");
    }
}
