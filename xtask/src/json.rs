//! Texts as JSON has them.

/// In quotes, with what must not stand in them as it is written instead.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stands_in_a_text_does_not_end_it() {
        assert_eq!(quoted("a \"b\" \\ \n\u{1b} µ"), r#""a \"b\" \\ \n\u001b µ""#);
    }
}
