//! The command that makes a plan again, for its `made_by`.

/// The command that makes a plan again: only what changes the plan, so that the same plan has the same bytes.
pub(super) struct Command(Vec<String>);

impl Command {
    pub(super) fn new(planner: &str) -> Command {
        Command(["sluice", "plan", planner].map(String::from).to_vec())
    }
    /// A flag with its value, if there is one.
    pub(super) fn add(&mut self, flag: &str, value: Option<impl ToString>) {
        self.0.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value.to_string()]));
    }
    /// A flag with a list, if there is anything in it.
    pub(super) fn add_all(&mut self, flag: &str, list: &[String]) {
        self.add(flag, (!list.is_empty()).then(|| list.join(",")));
    }
    /// A flag without a value, if it is set.
    pub(super) fn set(&mut self, flag: &str, is_set: bool) {
        self.0.extend(is_set.then(|| flag.to_owned()));
    }
    /// One line that a shell takes.
    pub(super) fn quoted(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/,:=@%+-".contains(c);
        let quote = |word: &String| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        };
        self.0.iter().map(quote).collect::<Vec<_>>().join(" ")
    }
}
