//! The pull reader: bounded in bytes, depth and elements, and always aware of where in the document it is.

mod scan;

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Names, Text};
use crate::problem::{Code, E_KEY, E_LIMIT, E_MISSING, E_PARSE, MAX_PROBLEMS, Problem, Problems, hint, nearest};

/// What a file may be at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole text.
    pub bytes: usize,
    /// Elements of lists and objects, all together.
    pub elements: u64,
    /// Elements that their reader counts with [`Reader::charge`], and what they are called.
    pub charged: (u64, &'static str),
}

/// Nesting of lists and objects at most.
const MAX_DEPTH: usize = 64;

/// The text cannot be read on: it is no JSON, or a limit was reached. The mistake is noted in the reader.
#[derive(Clone, Copy, Debug)]
pub struct Stop;

/// A step of reading.
pub type Read<T> = Result<T, Stop>;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number, read as text.
    Number,
    /// A text in quotes.
    Text,
    /// A list in brackets.
    List,
    /// An object in braces.
    Object,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "true or false",
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::List => "a list",
            Kind::Object => "an object",
        }
    }
}

/// A step of the JSON pointer.
enum Step {
    Key(String),
    Known(&'static str),
    Index(usize),
}

/// Reads one document value by value, and notes what is wrong with it.
pub struct Reader<'a> {
    text: &'a str,
    file: String,
    at: usize,
    path: Vec<Step>,
    errors: Vec<Problem>,
    limits: Limits,
    elements: u64,
    charged: u64,
    shared: HashSet<Text>,
    /// The node ids met so far.
    pub names: Names,
}

impl<'a> Reader<'a> {
    /// Begins to read. Too long a text, and bytes that are no UTF-8, are refused here.
    pub fn new(bytes: &'a [u8], limits: Limits, file: &str) -> Result<Reader<'a>, Problems> {
        if bytes.len() > limits.bytes {
            let (found, allowed) = (format!("{} bytes", bytes.len()), format!("at most {} bytes", limits.bytes));
            let error = Problem::new(E_LIMIT, "", "the file is too large").found(found).allowed(allowed);
            return Err(Problems::from(error).in_file(file));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let message = format!("not UTF-8 at byte {}", error.valid_up_to());
            Problems::from(Problem::new(E_PARSE, "", message).allowed("JSON in UTF-8")).in_file(file)
        })?;
        Ok(Reader {
            text,
            file: file.to_owned(),
            at: 0,
            path: Vec::new(),
            errors: Vec::new(),
            limits,
            elements: 0,
            charged: 0,
            shared: HashSet::new(),
            names: Names::default(),
        })
    }

    /// Reads the one value of the document with `read` and gives it back if nothing was wrong.
    pub fn document<T>(
        mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Read<Option<T>>,
    ) -> Result<(T, Names), Problems> {
        let value = read(&mut self).ok().flatten();
        if self.errors.is_empty() {
            self.blank();
            if self.at < self.text.len() {
                let _: Read<()> = self.broken("something follows the document", "nothing but blanks");
            }
        }
        match (Problems::collect(self.errors, &self.file), value) {
            (Some(errors), _) => Err(errors),
            (None, Some(value)) => Ok((value, self.names)),
            (None, None) => Err(Problem::new(E_PARSE, "", "nothing to read").into()),
        }
    }

    /// The text, shared with all equal ones of this document.
    pub fn share(&mut self, text: &str) -> Text {
        if let Some(shared) = self.shared.get(text) {
            return shared.clone();
        }
        let shared = Text::from(text);
        self.shared.insert(shared.clone());
        shared
    }

    /// Notes a mistake in the value that was just read; a key that the error has goes behind the pointer.
    pub fn refuse(&mut self, mut error: Problem) {
        if self.errors.len() < MAX_PROBLEMS {
            error.key = format!("{}{}", self.pointer(), error.key);
            self.errors.push(error);
        }
    }
    /// Notes that a key of the object that was just read is missing.
    pub fn missing(&mut self, key: &str) {
        self.refuse(Problem::new(E_MISSING, format!("/{key}"), format!("`{key}` is missing")));
    }
    /// Counts one of the elements that the limits name.
    pub fn charge(&mut self) -> Read<()> {
        self.charged += 1;
        let (most, what) = self.limits.charged;
        if self.charged > most { self.too_many(most, what) } else { Ok(()) }
    }

    /// How many bytes of the text have been read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// What kind of value comes next; it stays to be read.
    pub fn peek(&mut self) -> Read<Kind> {
        self.blank();
        match self.byte() {
            Some(b'n') => Ok(Kind::Null),
            Some(b't' | b'f') => Ok(Kind::Boolean),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b'"') => Ok(Kind::Text),
            Some(b'[') => Ok(Kind::List),
            Some(b'{') => Ok(Kind::Object),
            Some(_) => self.broken("not a JSON value", "null, true, false, a number, a text, a list or an object"),
            None => self.broken("the text ends in the middle", "the rest of the document"),
        }
    }

    /// Reads a text; `None` if it is something else.
    pub fn string(&mut self, allowed: &str) -> Read<Option<Cow<'a, str>>> {
        if self.expect(Kind::Text, allowed)? { self.quoted().map(Some) } else { Ok(None) }
    }
    /// Reads a number and gives its text.
    pub fn number(&mut self, allowed: &str) -> Read<Option<&'a str>> {
        if self.expect(Kind::Number, allowed)? { self.digits().map(Some) } else { Ok(None) }
    }
    /// Reads `true` or `false`.
    pub fn boolean(&mut self) -> Read<Option<bool>> {
        if !self.expect(Kind::Boolean, "true or false")? {
            return Ok(None);
        }
        let value = self.byte() == Some(b't');
        self.literal(if value { "true" } else { "false" })?;
        Ok(Some(value))
    }
    /// Reads one of some words.
    pub fn word<T>(&mut self, words: &[&str], parse: impl Fn(&str) -> Option<T>) -> Read<Option<T>> {
        let Some(text) = self.string(&words.join(", "))? else { return Ok(None) };
        let value = parse(&text);
        if value.is_none() {
            let help = nearest(&text, words.iter().copied()).map_or(String::new(), |near| format!("write `{near}`"));
            let error = Problem::new(crate::problem::E_RANGE, "", "not a known word").found(text);
            self.refuse(error.allowed(words.join(", ")).help(help));
        }
        Ok(value)
    }
    /// Reads a list; false if it is something else.
    pub fn list(&mut self, each: &mut dyn FnMut(&mut Reader<'a>) -> Read<()>) -> Read<bool> {
        if !self.expect(Kind::List, "a list")? {
            return Ok(false);
        }
        self.enter()?;
        let mut index = 0;
        while self.another(index == 0, b']')? {
            self.path.push(Step::Index(index));
            self.peek()?;
            each(self)?;
            self.path.pop();
            index += 1;
        }
        self.leave();
        Ok(true)
    }
    /// Reads an object with these keys, each at most once, given by their place; false if it is something else.
    pub fn object(
        &mut self,
        keys: &'static [&'static str],
        each: &mut dyn FnMut(&mut Reader<'a>, usize) -> Read<()>,
    ) -> Read<bool> {
        let mut seen = 0_u64;
        self.keys(&mut |reader, key| {
            let Some(place) = keys.iter().position(|known| *known == key) else {
                let help = hint(&key, keys.iter().copied()).unwrap_or_default();
                let error = Problem::new(E_KEY, "", format!("unknown key `{}`", crate::problem::printable(&key, 60)));
                reader.path.push(Step::Key(key.into_owned()));
                reader.refuse(error.allowed(keys.join(", ")).help(help));
                reader.skip()?;
                reader.path.pop();
                return Ok(());
            };
            reader.path.push(Step::Known(keys[place]));
            if seen >> place & 1 == 1 {
                reader.refuse(Problem::new(E_KEY, "", format!("the key `{key}` stands twice")));
                reader.skip()?;
            } else {
                each(reader, place)?;
            }
            seen |= 1 << place;
            reader.path.pop();
            Ok(())
        })
    }
    /// Reads an object whose keys are names; it is for the caller to refuse one that stands twice.
    pub fn entries(&mut self, each: &mut dyn FnMut(&mut Reader<'a>, &str) -> Read<()>) -> Read<bool> {
        self.keys(&mut |reader, key| {
            reader.path.push(Step::Key(key.clone().into_owned()));
            each(reader, &key)?;
            reader.path.pop();
            Ok(())
        })
    }

    /// Reads over a value.
    pub fn skip(&mut self) -> Read<()> {
        match self.peek()? {
            Kind::Null => self.literal("null"),
            Kind::Boolean => self.boolean().map(|_| ()),
            Kind::Number => self.digits().map(|_| ()),
            Kind::Text => self.quoted().map(|_| ()),
            Kind::List => self.list(&mut |reader| reader.skip()).map(|_| ()),
            Kind::Object => self.entries(&mut |reader, _| reader.skip()).map(|_| ()),
        }
    }

    fn keys(&mut self, each: &mut dyn FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>) -> Read<bool> {
        if !self.expect(Kind::Object, "an object")? {
            return Ok(false);
        }
        self.enter()?;
        let mut first = true;
        while self.another(first, b'}')? {
            first = false;
            self.blank();
            if self.byte() != Some(b'"') {
                return self.broken("not a key", "a text in double quotes");
            }
            let key = self.quoted()?;
            self.blank();
            if self.byte() != Some(b':') {
                return self.broken("no value behind a key", "`:`");
            }
            self.at += 1;
            self.peek()?;
            each(self, key)?;
        }
        self.leave();
        Ok(true)
    }

    /// Is the next value of this kind? If not, says so and reads over it.
    fn expect(&mut self, kind: Kind, allowed: &str) -> Read<bool> {
        let found = self.peek()?;
        if found == kind {
            return Ok(true);
        }
        let error = Problem::new(E_PARSE, "", format!("{} where {} should be", found.name(), kind.name()));
        let start = self.at;
        self.skip()?;
        let text = self.text.get(start..self.at).unwrap_or("");
        self.refuse(error.found(text).allowed(allowed));
        if self.errors.len() < MAX_PROBLEMS { Ok(false) } else { Err(Stop) }
    }

    fn enter(&mut self) -> Read<()> {
        self.at += 1;
        if self.path.len() >= MAX_DEPTH {
            let error = Problem::new(E_LIMIT, "", "nested too deeply").allowed(format!("{MAX_DEPTH} levels"));
            return self.stop(error);
        }
        Ok(())
    }
    fn leave(&mut self) {
        self.at += 1;
    }

    /// Is there another element before `end`? Reads the comma.
    fn another(&mut self, first: bool, end: u8) -> Read<bool> {
        self.blank();
        match self.byte() {
            Some(byte) if byte == end => return Ok(false),
            Some(b',') if !first => self.at += 1,
            Some(_) if first => {}
            Some(_) => return self.broken("an element does not end", "`,` or the end of the list or object"),
            None => return self.broken("the text ends in the middle", "the rest of the document"),
        }
        self.elements += 1;
        if self.elements > self.limits.elements {
            return self.too_many(self.limits.elements, "elements");
        }
        if self.errors.len() < MAX_PROBLEMS { Ok(true) } else { Err(Stop) }
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&crate::problem::printable(&escaped(key), 80)),
                Step::Known(key) => pointer.push_str(key),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }

    fn too_many<T>(&mut self, most: u64, what: &str) -> Read<T> {
        self.stop(Problem::new(E_LIMIT, "", format!("too many {what}")).allowed(format!("at most {most}")))
    }

    /// The text is no JSON from here on.
    fn broken<T>(&mut self, message: &str, allowed: &str) -> Read<T> {
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        let message = format!("{message} (line {line}, column {column})");
        let rest: String = self.text.get(self.at..).unwrap_or("").chars().take(20).collect();
        let error = Problem::new(E_PARSE, "", message).found(rest).allowed(allowed);
        self.stop(error.detail("line", line).detail("column", column))
    }
    fn stop<T>(&mut self, error: Problem) -> Read<T> {
        let code: Code = error.code;
        // A full list must still say why reading ended.
        if self.errors.len() >= MAX_PROBLEMS && !self.errors.iter().any(|error| error.code == code) {
            self.errors.pop();
        }
        self.refuse(error);
        Err(Stop)
    }
}

/// A key as a part of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
