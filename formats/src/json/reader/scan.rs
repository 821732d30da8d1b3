//! The letters of JSON: texts with their escapes, numbers, words, blanks.

use std::borrow::Cow;

use super::{Read, Reader};

impl<'a> Reader<'a> {
    /// The text from here, between its quotes.
    pub(super) fn quoted(&mut self) -> Read<Cow<'a, str>> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        let start = self.at;
        let mut built: Option<String> = None;
        let mut from = start;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    let last = self.text.get(from..self.at).unwrap_or("");
                    self.at += 1;
                    return Ok(match built {
                        None => Cow::Borrowed(last),
                        Some(mut built) => {
                            built.push_str(last);
                            Cow::Owned(built)
                        }
                    });
                }
                Some(b'\\') => {
                    let built = built.get_or_insert_with(String::new);
                    built.push_str(self.text.get(from..self.at).unwrap_or(""));
                    match escape(self.text.get(self.at + 1..).unwrap_or("")) {
                        Some((c, length)) => {
                            built.push(c);
                            self.at += 1 + length;
                            from = self.at;
                        }
                        None => {
                            return self.broken("not an escape of JSON", "\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
                        }
                    }
                }
                Some(0..=0x1f) => return self.broken("a control character in a text", "its escape"),
                Some(_) => self.at += 1,
                None => return self.broken("a text does not end", "`\"`"),
            }
        }
    }

    /// The number from here, as its text.
    pub(super) fn digits(&mut self) -> Read<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let run = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = run(at);
        let leading_zero = bytes.get(at) == Some(&b'0') && whole > at + 1;
        let mut good = whole > at && !leading_zero;
        at = whole;
        if bytes.get(at) == Some(&b'.') {
            let end = run(at + 1);
            good &= end > at + 1;
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let end = run(at + 1 + sign);
            good &= end > at + 1 + sign;
            at = end;
        }
        if !good {
            return self.broken("not a number of JSON", "digits without a leading zero");
        }
        self.at = at;
        Ok(self.text.get(start..at).unwrap_or("0"))
    }

    /// This word, and nothing else.
    pub(super) fn literal(&mut self, word: &str) -> Read<()> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return self.broken("not a JSON value", "null, true, false, a number, a text, a list or an object");
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over blanks and line ends.
    pub(super) fn blank(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }
    /// The byte that comes next.
    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// The character that an escape stands for and the bytes it takes behind the backslash.
fn escape(rest: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    Some(match rest.as_bytes().first()? {
        b'"' => ('"', 1),
        b'\\' => ('\\', 1),
        b'/' => ('/', 1),
        b'b' => ('\u{8}', 1),
        b'f' => ('\u{c}', 1),
        b'n' => ('\n', 1),
        b'r' => ('\r', 1),
        b't' => ('\t', 1),
        b'u' => match unit(1)? {
            high @ 0xd800..=0xdbff => {
                let low = rest.get(5..7).filter(|escape| *escape == "\\u").and_then(|_| unit(7))?;
                if !(0xdc00..=0xdfff).contains(&low) {
                    return None;
                }
                (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 11)
            }
            code => (char::from_u32(code)?, 5),
        },
        _ => return None,
    })
}
