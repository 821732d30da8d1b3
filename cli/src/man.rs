//! `sluice man`: a manual page for every command, and for the two daemons, made from the definitions that `--help` prints; and
//! one for each file that operators write.

mod files;

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;
use sluice_wire::snapshot::SCHEMA;

use crate::args::Args;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// What `sluice man` understands.
#[derive(Clone, Debug, ClapArgs)]
pub struct ManArgs {
    /// Where the pages go; it is made where it is missing
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

pub fn run(global: &Global, args: &ManArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.dir).map_err(|error| Failure::failed(format!("{}: {error}", args.dir.display())))?;
    let mut pages = Vec::new();
    write(&Args::command(), "sluice", "1", &args.dir, &mut pages)?;
    write(&sluiced::args::Arguments::command(), "sluiced", "8", &args.dir, &mut pages)?;
    write(&sluice_switch::args::Arguments::command(), "sluice-switch", "8", &args.dir, &mut pages)?;
    for (file, text) in files::pages() {
        put(&args.dir, file, text.as_bytes(), &mut pages)?;
    }
    if global.quiet {
        return Ok(());
    }
    let value = json!({ "schema": SCHEMA, "dir": args.dir.display().to_string(), "pages": pages });
    output::one(global, &value, || format!("{} pages in {}\n", pages.len(), args.dir.display()))
}

/// The page of a command and those below it: `sluice-plan-bfb.1`.
fn write(command: &Command, name: &str, section: &str, dir: &Path, pages: &mut Vec<String>) -> Result<(), Failure> {
    // In a page's SYNOPSIS the name is the one that is typed.
    let typed = if section == "1" { name.replacen("sluice-", "sluice ", 1).replace('-', " ") } else { name.to_owned() };
    let mut page = command.clone().bin_name(typed).display_name(name.to_owned());
    // Subcommands have pages of their own, under the whole name.
    page.build();
    let mut text = Vec::new();
    let man = Man::new(page).title(name.to_uppercase()).section(section.to_owned()).manual("Sluice");
    man.render(&mut text)?;
    put(dir, format!("{name}.{section}"), &text, pages)?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below {
        write(below, &format!("{name}-{}", below.get_name()), section, dir, pages)?;
    }
    Ok(())
}

fn put(dir: &Path, file: String, text: &[u8], pages: &mut Vec<String>) -> Result<(), Failure> {
    let path = dir.join(&file);
    std::fs::write(&path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    pages.push(file);
    Ok(())
}
