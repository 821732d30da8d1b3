//! Which metrics and labels a PromQL expression names. Whether it is valid otherwise, promtool says.

/// Words before a list of labels in parentheses.
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words that are neither metric nor function.
const WORDS: [&str; 7] = ["and", "or", "unless", "bool", "offset", "inf", "nan"];

/// A condition on a label: `code="loss-guard"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    /// The label's name.
    pub label: String,
    /// `=`, `!=`, `=~` or `!~`.
    pub operator: String,
    /// What it is held against.
    pub value: String,
}

/// A metric as it is named in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The metric's name.
    pub metric: String,
    /// The conditions in its braces.
    pub matchers: Vec<Matcher>,
}

/// What an expression names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Metrics, as often as they stand there.
    pub metrics: Vec<Named>,
    /// Labels that values are grouped or joined by.
    pub grouped: Vec<String>,
    /// Labels that the expression makes itself (`count_values`).
    pub made: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Reads an expression.
///
/// # Errors
/// What is not understood, in one sentence.
pub fn read(expr: &str) -> Result<Read, String> {
    let tokens = tokens(expr)?;
    let mut out = Read::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let Token::Word(word) = token else { continue };
        let next = tokens.get(at);
        if LISTS.contains(&word.as_str()) {
            if next == Some(&Token::Sign('(')) {
                at = labels(&tokens, at + 1, &mut out.grouped);
            }
        } else if word == "count_values" {
            let made =
                tokens[at..].iter().find_map(|t| if let Token::Text(text) = t { Some(text.clone()) } else { None });
            out.made.push(made.ok_or("count_values names no label")?);
        } else if !WORDS.contains(&word.as_str()) && !is_function(next) {
            let matchers = if next == Some(&Token::Sign('{')) { matchers(&tokens, &mut at)? } else { Vec::new() };
            out.metrics.push(Named { metric: word.clone(), matchers });
        }
    }
    Ok(out)
}

/// Is what stands before this token a function or an aggregation?
fn is_function(next: Option<&Token>) -> bool {
    match next {
        Some(Token::Sign('(')) => true,
        Some(Token::Word(word)) => ["by", "without"].contains(&word.as_str()),
        _ => false,
    }
}

/// Labels up to the closing parenthesis; the place after it.
fn labels(tokens: &[Token], from: usize, out: &mut Vec<String>) -> usize {
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Word(word) => out.push(word.clone()),
            Token::Sign(')') => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The conditions in braces that begin at `at`, which is moved past them.
fn matchers(tokens: &[Token], at: &mut usize) -> Result<Vec<Matcher>, String> {
    let (mut out, mut label, mut operator) = (Vec::new(), String::new(), String::new());
    for token in &tokens[*at + 1..] {
        *at += 1;
        match token {
            Token::Word(word) => (label, operator) = (word.clone(), String::new()),
            Token::Sign('}') => {
                *at += 1;
                return Ok(out);
            }
            Token::Sign(',') => {}
            Token::Sign(sign) => operator.push(*sign),
            Token::Text(value) => {
                out.push(Matcher { label: label.clone(), operator: operator.clone(), value: value.clone() });
            }
        }
    }
    Err("a brace is not closed".into())
}

fn tokens(expr: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = expr.chars().peekable();
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                let mut text = String::new();
                loop {
                    match rest.next().ok_or("a text is not closed")? {
                        '"' => break,
                        '\\' => text.push(rest.next().ok_or("a text is not closed")?),
                        other => text.push(other),
                    }
                }
                out.push(Token::Text(text));
            }
            '[' => while rest.next().ok_or("a bracket is not closed")? != ']' {},
            // Numbers and durations, and Grafana's variables, name nothing.
            c if c.is_ascii_digit() || c == '$' => while rest.next_if(|c| part(*c) || *c == '.').is_some() {},
            c if part(c) => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| part(*c)) {
                    word.push(c);
                }
                out.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => out.push(Token::Sign(c)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(expr: &str) -> Vec<String> {
        read(expr).expect("readable").metrics.into_iter().map(|named| named.metric).collect()
    }

    #[test]
    fn metrics_labels_and_conditions_are_found() {
        let expr = "8 * sum by (instance) (rate(a_total{code=\"x\", job_id=~\"$job_id\"}[$__rate_interval]) \
                    and on (host) b{cluster=~\"$cluster\"}) / 1e3 offset $__interval";
        let read = read(expr).expect("readable");
        assert_eq!(names(expr), ["a_total", "b"]);
        assert_eq!(read.grouped, ["instance", "host"]);
        let first = &read.metrics[0].matchers;
        assert_eq!((first[0].label.as_str(), first[0].operator.as_str(), first[0].value.as_str()), ("code", "=", "x"));
        assert_eq!((first[1].label.as_str(), first[1].operator.as_str()), ("job_id", "=~"));
        assert_eq!(read.metrics[1].matchers[0].label, "cluster");
    }

    #[test]
    fn words_of_the_language_are_no_metrics() {
        assert_eq!(
            names("histogram_quantile(0.99, sum by (le) (rate(x_bucket[5m]))) > bool 2 or vector(0)"),
            ["x_bucket"]
        );
        assert_eq!(names("a:b:c unless d offset 1m == 1"), ["a:b:c", "d"]);
        let read = read("count_values by (cluster) (\"hash\", a * on (i) group_left (cluster) b)").expect("readable");
        assert_eq!((read.made.as_slice(), read.metrics.len()), (&["hash".to_owned()][..], 2));
    }

    #[test]
    fn what_is_not_closed_is_said() {
        for expr in ["a{b=\"c", "a[5m", "a{b=\"c\"", "\"x\\"] {
            assert!(read(expr).is_err(), "{expr}");
        }
    }
}
