//! MXNet 1.9.1 from PyPI in a virtual environment beside the other workloads. It is the last one there is, made for
//! Python up to 3.11 and numpy before 1.24. Nothing outside that directory is changed.

use std::fs;
use std::path::Path;

use crate::shell::{Step, have};

/// What pip installs.
const PACKAGES: [&str; 2] = ["mxnet==1.9.1", "numpy==1.23.5"];
/// The version of Python that both have wheels for.
const IS_3_11: &str = "import sys; sys.exit(sys.version_info[:2] != (3, 11))";
/// Does what was installed work?
const WORKS: &str = "import mxnet; assert mxnet.__version__ == '1.9.1'";

/// Installs it into `mxnet` below `workloads`, or says why not: without Python 3.11 the rest is of use too.
///
/// # Errors
/// A sentence with what to do.
pub(crate) fn install(workloads: &Path) -> Result<(), String> {
    let to = workloads.join("mxnet");
    let own = to.join("bin/python").display().to_string();
    let mark = to.join(".installed");
    let wanted = PACKAGES.join(" ");
    let marked = fs::read_to_string(&mark).is_ok_and(|text| text == wanted);
    if marked && Step::new(&own, &["-c", WORKS]).quiet() {
        println!("workloads: MXNet is in {}, nothing is missing", to.display());
        return Ok(());
    }
    let python =
        ["python3.11", "python3"].into_iter().find(|name| have(name) && Step::new(name, &["-c", IS_3_11]).quiet());
    let Some(python) = python else {
        println!(
            "workloads: MXNet 1.9.1 needs Python 3.11, which is not here: it is left out, and what needs it is skipped"
        );
        return Ok(());
    };
    let place = to.display().to_string();
    let no_venv = |e| format!("{e}; on Debian `apt-get install python3.11-venv` brings what it needs");
    Step::new(python, &["-m", "venv", &place]).run().map_err(no_venv)?;
    let pip = Step::new(&own, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    PACKAGES.into_iter().fold(pip, Step::arg).run()?;
    if !Step::new(&own, &["-c", WORKS]).quiet() {
        return Err(format!("MXNet was installed but does not load; delete {place} and run this again"));
    }
    fs::write(&mark, wanted).map_err(|e| format!("noting that MXNet is installed: {e}"))?;
    println!("workloads: MXNet installed in {place}");
    Ok(())
}
