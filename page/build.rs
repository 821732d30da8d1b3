//! Puts each page together into one file, and says by hash what of it a browser may run and apply.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The pages, each by the name of its markup and of its own script.
const PAGES: [&str; 2] = ["host", "switch"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=files");
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let read = |name: &str| fs::read_to_string(Path::new("files").join(name));
    for page in PAGES {
        let style = read("style.css")?;
        // One function around both parts: nothing of them is anybody else's.
        let script = format!("'use strict';(()=>{{\n{}{}}})()", read("shared.js")?, read(&format!("{page}.js"))?);
        let html = read(&format!("{page}.html"))?;
        let html = put(&html, "<style></style>", &format!("<style>{style}</style>"))?;
        let html = put(&html, "<script></script>", &format!("<script>{script}</script>"))?;
        fs::write(Path::new(&out).join(format!("{page}.html")), html)?;
        fs::write(Path::new(&out).join(format!("{page}.policy")), policy(&style, &script))?;
    }
    Ok(())
}

/// Nothing but this script and this style, and nothing from anywhere but where the page came from.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let mut policy = String::from("default-src 'none'; ");
    _ = write!(policy, "script-src 'sha256-{}'; style-src 'sha256-{}'; ", hash(script), hash(style));
    policy + "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

fn put(html: &str, mark: &str, text: &str) -> io::Result<String> {
    match html.split_once(mark) {
        Some((before, after)) if !after.contains(mark) => Ok(format!("{before}{text}{after}")),
        _ => Err(io::Error::other(format!("the markup must have {mark} once"))),
    }
}
