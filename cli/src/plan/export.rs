//! `sluice plan export`: a plan as a program for a runtime, as a list of trees, or as a picture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use sluice_formats::problem::{E_KEY, E_MISSING, E_RANGE, Problem, Problems};
use sluice_plan::export::{self, Dialect, Format, INTERNAL_INVARIANT, Options, Protocol};
use sluice_plan::interpret::{self, Report};
use sluice_plan::plan::{MAX_BYTES, Plan};

use super::args::ExportArgs;
use super::files;
use super::made::bytes;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// What was written, as one JSON document.
#[derive(Serialize)]
struct Shown {
    schema: u32,
    format: &'static str,
    files: Vec<Written>,
    warnings: Vec<Warned>,
    /// What the interpreter found, where it was asked.
    verified: Option<Report>,
}

#[derive(Serialize)]
struct Written {
    out: String,
    bytes: usize,
}

#[derive(Serialize)]
struct Warned {
    code: &'static str,
    message: String,
}

pub fn run(global: &Global, args: &ExportArgs) -> Result<ExitCode, Failure> {
    fitting(args)?;
    let file = files::name(&args.plan);
    let plan = Plan::read(&files::read(&args.plan, MAX_BYTES as u64)?, &file)?;
    let given = args.fabric.read()?;
    let options = Options {
        instances: args.instances,
        dialect: args.dialect,
        protocol: args.proto,
        limits: !args.no_limits,
        max_bytes: most_bytes(&args.max_bytes)?,
        consolidate: args.consolidate,
        tree: args.tree,
        colour: args.colour,
    };
    let made = export::export(&plan, given.as_ref(), args.format, &options).map_err(|errors| flags(errors, &file))?;
    let verified = match (args.verify, made.files.as_slice()) {
        (true, [only]) => Some(verify(&only.text)?),
        _ => None,
    };
    let paths = places(args, &made.files)?;
    for warning in made.warnings.iter().filter(|_| !global.quiet) {
        eprintln!("warning[{}]: {}", warning.code, warning.message);
    }
    let Some(paths) = paths else {
        // Where there is no file to write, there is one text.
        made.files.iter().try_for_each(|file| output::print(&file.text))?;
        return Ok(ExitCode::SUCCESS);
    };
    let all: Vec<(&Path, &str)> =
        paths.iter().map(PathBuf::as_path).zip(made.files.iter().map(|file| &*file.text)).collect();
    files::write_all(&all)?;
    if !global.quiet {
        let written = all.iter().map(|(path, text)| Written { out: path.display().to_string(), bytes: text.len() });
        let warnings =
            made.warnings.iter().map(|warning| Warned { code: warning.code, message: warning.message.clone() });
        let shown = Shown {
            schema: 1,
            format: args.format.word(),
            files: written.collect(),
            warnings: warnings.collect(),
            verified,
        };
        output::one(global, &shown, || text(&shown))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses flags that say nothing about the format.
fn fitting(args: &ExportArgs) -> Result<(), Problems> {
    let program = args.format == Format::MscclXml;
    let executable = program || args.format == Format::OnecclXml;
    let picture = matches!(args.format, Format::Dot | Format::Svg);
    let given = [
        ("--instances", args.instances != 1, program, "msccl-xml"),
        ("--dialect", args.dialect != Dialect::Msccl, program, "msccl-xml"),
        ("--proto", args.proto != Protocol::Simple, program, "msccl-xml"),
        ("--max-bytes", args.max_bytes != "1TiB", program, "msccl-xml"),
        ("--no-limits", args.no_limits, program, "msccl-xml"),
        ("--consolidate", args.consolidate, program, "msccl-xml"),
        ("--verify", args.verify, executable, "msccl-xml and oneccl-xml"),
        ("--tree", args.tree.is_some(), picture, "dot and svg"),
        ("--colour", args.colour.is_some(), picture, "dot and svg"),
    ];
    match given.into_iter().find(|(_, given, fits, _)| *given && !fits) {
        None => Ok(()),
        Some((flag, _, _, formats)) => {
            let message = format!("{flag} says nothing about this format");
            let error = Problem::new(E_KEY, flag, message).found(args.format.word());
            Err(error.allowed(format!("with {formats}")).into())
        }
    }
}

/// A whole number of bytes, at least one.
fn most_bytes(text: &str) -> Result<u64, Problems> {
    bytes(text, "--max-bytes")?.to_u64().ok_or_else(|| {
        let error = Problem::new(E_RANGE, "--max-bytes", "not a whole number of bytes").found(text);
        error.allowed(format!("1 to {}", u64::MAX)).into()
    })
}

/// Runs the program; what goes wrong there is a defect of the exporter.
fn verify(xml: &str) -> Result<Report, Problems> {
    let report = interpret::interpret(xml.as_bytes(), "the program")?;
    match &report.fault {
        None => Ok(report),
        Some(fault) => {
            let error = Problem::new(INTERNAL_INVARIANT, &fault.at, "the program does not do its collective");
            Err(error.found(fault.to_string()).help("please report it, with the plan").into())
        }
    }
}

/// Where each file goes; `None` for stdout.
fn places(args: &ExportArgs, made: &[export::Exported]) -> Result<Option<Vec<PathBuf>>, Problems> {
    match args.out.as_deref().filter(|path| !files::is_standard(path)) {
        Some(path) => Ok(Some(made.iter().map(|file| with_part(path, file.part)).collect())),
        None if made.len() == 1 => Ok(None),
        None => {
            let parts: Vec<&str> = made.iter().map(|file| file.part).collect();
            let error = Problem::new(E_MISSING, "--out", "an all-reduce in this format is two files");
            let allowed = format!("a file name, which gets `{}` before its ending", parts.join("` or `"));
            Err(error.allowed(allowed).into())
        }
    }
}

/// `a.json` as `a.in.json`.
fn with_part(path: &Path, part: &str) -> PathBuf {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned());
    match (part, ending) {
        ("", _) => path.to_owned(),
        (part, None) => path.with_extension(part),
        (part, Some(ending)) => path.with_extension(format!("{part}.{ending}")),
    }
}

/// Names of parameters as flags, and the plan as the place of all other keys.
fn flags(errors: Problems, file: &str) -> Problems {
    let flag = |error: &Problem| match error.key.as_str() {
        "colour" | "consolidate" | "instances" | "tree" => Problem { key: format!("--{}", error.key), ..error.clone() },
        _ => Problem { file: file.into(), ..error.clone() },
    };
    let is_flag = |error: &Problem| matches!(error.key.as_str(), "colour" | "consolidate" | "instances" | "tree");
    if errors.all().iter().any(is_flag) {
        return Problems::collect(errors.all().iter().map(flag).collect(), "").unwrap_or(errors);
    }
    errors.in_file(file)
}

fn text(shown: &Shown) -> String {
    let mut text = String::new();
    for file in &shown.files {
        text += &format!("wrote {}: {}, {} bytes\n", file.out, shown.format, file.bytes);
    }
    if let Some(report) = &shown.verified {
        let ways = match (report.in_place, report.out_of_place) {
            (true, true) => "in one buffer and in two",
            (true, false) => "in one buffer",
            _ => "in two buffers",
        };
        text += &format!(
            "verified: the program does its collective {ways}; {} ranks, {} channels, up to {} blocks, {} steps\n",
            report.ranks, report.channels, report.blocks, report.steps
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_before_the_ending() {
        assert_eq!(with_part(Path::new("d/a.json"), "in"), Path::new("d/a.in.json"));
        assert_eq!(with_part(Path::new("d.x/a"), "out"), Path::new("d.x/a.out"));
        assert_eq!(with_part(Path::new("a.json"), ""), Path::new("a.json"));
    }
}
