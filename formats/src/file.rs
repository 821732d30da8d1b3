//! Reading a whole file of bounded size.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::problem::{E_LIMIT, E_MISSING, E_PARSE, E_PERM, Problem, Problems};

/// The bytes of a regular file of at most `max` bytes.
///
/// # Errors
/// One problem of the file: absent, not to be read, no regular file, too large.
pub fn load(path: &Path, max: u64) -> Result<Vec<u8>, Problems> {
    let refuse = |problem: Problem| Problems::from(problem.in_file(path.display().to_string()));
    let unreadable = |error: std::io::Error| {
        let code = if error.kind() == ErrorKind::NotFound { E_MISSING } else { E_PERM };
        refuse(Problem::new(code, "", format!("cannot be read: {error}")).help("check the path and its owner"))
    };
    let regular = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !regular {
        return Err(refuse(Problem::new(E_PARSE, "", "not a file").allowed("a regular file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let length = file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if length as u64 > max {
        let problem = Problem::new(E_LIMIT, "", "the file is too large").allowed(format!("at most {max} bytes"));
        return Err(refuse(problem));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `max` bytes in UTF-8.
///
/// # Errors
/// As [`load`], and the first byte that is no UTF-8.
pub fn load_text(path: &Path, max: u64) -> Result<String, Problems> {
    String::from_utf8(load(path, max)?).map_err(|error| {
        let message = format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to());
        Problem::new(E_PARSE, "", message).allowed("a text in UTF-8").in_file(path.display().to_string()).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_regular_file_is_refused_by_name() {
        let dir = std::env::temp_dir().join(format!("sluice-formats-file-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("a");
        std::fs::write(&path, b"four").expect("written");
        assert_eq!(load(&path, 4).expect("small"), b"four");
        let code = |result: Result<Vec<u8>, Problems>| result.expect_err("refused").code();
        assert_eq!(code(load(&path, 3)), E_LIMIT);
        assert_eq!(code(load(&dir, 3)), E_PARSE);
        assert_eq!(code(load(&dir.join("none"), 3)), E_MISSING);
        std::fs::write(&path, b"a\xff").expect("written");
        let problems = load_text(&path, 4).expect_err("no text");
        assert!(problems.to_string().contains("not UTF-8 at byte 1"), "{problems}");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
