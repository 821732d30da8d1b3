//! Tables: a header, right-aligned numbers, two blanks between columns, no boxes. Where the terminal is too narrow,
//! columns drop from the right.

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table while it is filled.
#[derive(Debug)]
pub struct Table {
    heads: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a head that begins with `>` is right-aligned.
    pub fn new(heads: impl IntoIterator<Item = impl AsRef<str>>) -> Table {
        let head = |text: &str| match text.strip_prefix('>') {
            Some(rest) => (rest.to_owned(), Align::Right),
            None => (text.to_owned(), Align::Left),
        };
        Table { heads: heads.into_iter().map(|text| head(text.as_ref())).collect(), rows: Vec::new() }
    }

    /// A table with these columns, two blanks between one and the next.
    pub fn of(heads: &str) -> Table {
        Table::new(heads.split("  "))
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, at most `width` columns wide if one is given.
    pub fn render(&self, width: Option<usize>) -> String {
        let cell = |row: &[String], column: usize| row.get(column).map_or(0, |text| text.chars().count());
        let widths: Vec<usize> = self
            .heads
            .iter()
            .enumerate()
            .map(|(column, (head, _))| {
                self.rows.iter().map(|row| cell(row, column)).chain([head.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let mut shown = widths.len();
        if let Some(width) = width {
            while shown > 1 && widths.iter().take(shown).sum::<usize>() + 2 * (shown - 1) > width {
                shown -= 1;
            }
        }
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let mut out = String::new();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (column, ((_, align), &width)) in self.heads.iter().zip(&widths).take(shown).enumerate() {
                let text = row.get(column).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(text.chars().count()));
                let gap = if column > 0 { "  " } else { "" };
                match align {
                    Align::Left => line.extend([gap, text, &pad]),
                    Align::Right => line.extend([gap, &pad, text]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_drop_from_the_right() {
        let mut table = Table::new(["JOB", ">FLOWS", "WHY"]);
        table.row(vec!["4711".into(), "8".into(), "rank".into()]);
        table.row(vec!["a".into(), "12".into(), "price".into()]);
        assert_eq!(table.render(None), "JOB   FLOWS  WHY\n4711      8  rank\na        12  price\n");
        assert_eq!(table.render(Some(12)), "JOB   FLOWS\n4711      8\na        12\n");
        assert_eq!(table.render(Some(1)), "JOB\n4711\na\n");
    }
}
