//! Writes the stories of [`sluice_pipeline::vectors`] as files that a P4 target replays.

use std::path::Path;

use anyhow::Context;
use sluice_pipeline::vectors::{replay_files, stories};

/// Writes all stories below a folder, and says how many they are.
pub fn write(folder: &Path) -> anyhow::Result<usize> {
    let stories = stories();
    for file in stories.iter().flat_map(replay_files) {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        std::fs::write(&path, &file.bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(stories.len())
}
