//! What a shared library asks of the machine that loads it, read from its ELF headers: 64 bits, little-endian, and bounded
//! whatever the file holds.

use std::collections::BTreeSet;

/// Kinds of sections.
const SYMTAB: u32 = 2;
const DYNAMIC: u32 = 6;
const DYNSYM: u32 = 11;
const VERSYM: u32 = 0x6fff_ffff;
const VERNEED: u32 = 0x6fff_fffe;
/// Entries of the dynamic section.
const NEEDED: u64 = 1;
const SONAME: u64 = 14;
const FLAGS_1: u64 = 0x6fff_fffb;
/// It stays where it is when it is closed.
const NODELETE: u64 = 8;

/// A library, as its loader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Library {
    /// Number of the processor's architecture; 62 is x86-64.
    pub(crate) machine: u16,
    /// The name under which others need it.
    pub(crate) soname: String,
    /// Libraries that it needs.
    pub(crate) needed: Vec<String>,
    /// Symbols that it needs in a version, as version and name; and versions that it needs although no symbol has them.
    pub(crate) versions: BTreeSet<(String, String)>,
    /// Symbols that it has for others.
    pub(crate) exports: BTreeSet<String>,
    /// Never unmapped.
    pub(crate) stays: bool,
    /// It holds names or lines that only a debugger needs.
    pub(crate) unstripped: bool,
}

struct Section<'a> {
    name: u32,
    kind: u32,
    link: u32,
    bytes: &'a [u8],
}

/// # Errors
/// Why this is no library that can be read.
pub(crate) fn read(file: &[u8]) -> Result<Library, String> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("no ELF file of 64 bits, little-endian".into());
    }
    sections(file)
        .and_then(|sections| library(file, &sections))
        .ok_or_else(|| "its headers lead out of the file".into())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..N)?.copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(number))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number::<2>(bytes, at)?).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    u32::try_from(number::<4>(bytes, at)?).ok()
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let (start, size, count) = (usize::try_from(number::<8>(file, 0x28)?).ok()?, half(file, 0x3a)?, half(file, 0x3c)?);
    let mut sections = Vec::new();
    for index in 0..count {
        let head = file.get(start.checked_add(size.checked_mul(index)?)?..)?;
        let (from, length) =
            (usize::try_from(number::<8>(head, 0x18)?).ok()?, usize::try_from(number::<8>(head, 0x20)?).ok()?);
        let kind = word(head, 4)?;
        // A section without bytes in the file (8) has a length all the same.
        let bytes = if kind == 8 { &[][..] } else { file.get(from..from.checked_add(length)?)? };
        sections.push(Section { name: word(head, 0)?, kind, link: word(head, 0x28)?, bytes });
    }
    Some(sections)
}

/// The text at this place of a table of texts.
fn text(table: &[u8], at: u32) -> Option<String> {
    let bytes = table.get(usize::try_from(at).ok()?..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
}

fn library(file: &[u8], sections: &[Section<'_>]) -> Option<Library> {
    let mut library = Library { machine: u16::try_from(half(file, 0x12)?).ok()?, ..Library::default() };
    let linked = |section: &Section<'_>| sections.get(usize::try_from(section.link).ok()?).map(|table| table.bytes);
    let names = sections.get(half(file, 0x3e)?)?.bytes;
    let versym = sections.iter().find(|section| section.kind == VERSYM).map(|section| section.bytes);
    // Number of a version among the symbols, and the version.
    let mut wanted: Vec<(usize, String)> = Vec::new();
    for section in sections {
        library.unstripped |= section.kind == SYMTAB || text(names, section.name)?.starts_with(".debug_");
        match section.kind {
            DYNAMIC => dynamic(&mut library, section.bytes, linked(section)?)?,
            VERNEED => wanted = versions(section.bytes, linked(section)?)?,
            _ => {}
        }
    }
    for section in sections.iter().filter(|section| section.kind == DYNSYM) {
        let texts = linked(section)?;
        for (index, symbol) in section.bytes.chunks_exact(24).enumerate() {
            let name = text(texts, word(symbol, 0)?)?;
            let undefined = half(symbol, 6)? == 0;
            let visible = symbol.get(5)? & 3 == 0 && symbol.get(4)? >> 4 != 0;
            if !undefined && visible && !name.is_empty() {
                library.exports.insert(name);
            } else if let Some(versym) = versym {
                let number = half(versym, index * 2)? & 0x7fff;
                let version = wanted.iter().find(|(wanted, _)| *wanted == number);
                library.versions.extend(version.map(|(_, version)| (version.clone(), name)));
            }
        }
    }
    for (_, version) in wanted {
        if !library.versions.iter().any(|(used, _)| *used == version) {
            library.versions.insert((version, String::new()));
        }
    }
    Some(library)
}

fn dynamic(library: &mut Library, bytes: &[u8], texts: &[u8]) -> Option<()> {
    for entry in bytes.chunks_exact(16) {
        let (tag, value) = (number::<8>(entry, 0)?, number::<8>(entry, 8)?);
        match tag {
            NEEDED => library.needed.push(text(texts, u32::try_from(value).ok()?)?),
            SONAME => library.soname = text(texts, u32::try_from(value).ok()?)?,
            FLAGS_1 => library.stays = value & NODELETE != 0,
            _ => {}
        }
    }
    Some(())
}

/// The versions that a library needs of others, each with its number.
fn versions(bytes: &[u8], texts: &[u8]) -> Option<Vec<(usize, String)>> {
    let mut all = Vec::new();
    let mut at = 0_usize;
    // No more turns than there is room for, whatever the offsets say.
    for _ in 0..bytes.len() / 16 {
        let mut entry = at.checked_add(usize::try_from(word(bytes, at.checked_add(8)?)?).ok()?)?;
        for _ in 0..half(bytes, at.checked_add(2)?)?.min(bytes.len() / 16) {
            let name = text(texts, word(bytes, entry.checked_add(8)?)?)?;
            all.push((half(bytes, entry.checked_add(6)?)?, name));
            match word(bytes, entry.checked_add(12)?)? {
                0 => break,
                next => entry = entry.checked_add(usize::try_from(next).ok()?)?,
            }
        }
        match word(bytes, at.checked_add(12)?)? {
            0 => break,
            next => at = at.checked_add(usize::try_from(next).ok()?)?,
        }
    }
    Some(all)
}

#[cfg(test)]
pub(crate) mod tests;
