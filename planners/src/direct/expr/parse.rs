//! Reading expressions: one pass, bounded in length and depth, with the place of a mistake and what is allowed there.

use std::fmt;

use super::Expr;
use crate::direct::family::{Family, Half, Metacyclic, WORDS};
use sluice_formats::problem::{E_PARSE, Problem, hint, printable};

/// Characters of an expression at most.
pub const MAX_CHARACTERS: usize = 4096;
/// Brackets and functions inside each other at most.
pub const MAX_DEPTH: u32 = 32;
/// Operators behind one another at most, and line expansions at once.
const MAX_CHAIN: usize = 20;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// The place, in characters from 1.
    pub at: usize,
    /// The character or word there, or that the text ends.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: found {}; allowed: {}", self.at, self.found, self.allowed)
    }
}

impl std::error::Error for Misread {}

impl From<Misread> for Problem {
    fn from(misread: Misread) -> Problem {
        let message = format!("not an expression of a graph, at character {}", misread.at);
        Problem::new(E_PARSE, "EXPR", message).found(misread.found).allowed(misread.allowed)
    }
}

/// Reads a whole expression.
pub fn parse(text: &str) -> Result<Expr, Misread> {
    let chars: Vec<char> = text.chars().take(MAX_CHARACTERS + 1).collect();
    if chars.len() > MAX_CHARACTERS {
        let found = "a longer expression".into();
        return Err(Misread { at: MAX_CHARACTERS + 1, found, allowed: format!("{MAX_CHARACTERS} characters") });
    }
    let mut parser = Parser { chars, at: 0, depth: 0 };
    let expr = parser.product()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.misread("`x` and another graph, `*n`, `^n`, or the end")),
    }
}

/// What stands between the brackets of a family.
enum Argument {
    Number(u32),
    Set(Vec<u32>),
    Pair(u32, u32),
    Word(String),
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: u32,
}

impl Parser {
    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, wanted: char, allowed: &str) -> Result<(), Misread> {
        if self.takes(wanted) { Ok(()) } else { Err(self.misread(allowed)) }
    }

    fn misread(&mut self, allowed: impl Into<String>) -> Misread {
        self.peek();
        self.misread_at(self.at, allowed)
    }

    fn misread_at(&self, at: usize, allowed: impl Into<String>) -> Misread {
        let rest: String = self.chars.iter().skip(at).take(13).collect();
        let found = if rest.is_empty() { "the end".into() } else { format!("`{}`", printable(&rest, 12)) };
        Misread { at: at + 1, found, allowed: allowed.into() }
    }

    /// `G x H x …`
    fn product(&mut self) -> Result<Expr, Misread> {
        if self.depth >= MAX_DEPTH {
            return Err(self.misread(format!("at most {MAX_DEPTH} brackets inside each other")));
        }
        self.depth += 1;
        let first = self.expanded()?;
        let mut factors = vec![first];
        while self.takes('x') {
            if factors.len() >= MAX_CHAIN {
                return Err(self.misread(format!("at most {MAX_CHAIN} factors")));
            }
            factors.push(self.expanded()?);
        }
        self.depth -= 1;
        Ok(if factors.len() == 1 { factors.remove(0) } else { Expr::Product(factors) })
    }

    /// A graph with `*n` and `^n` behind it.
    fn expanded(&mut self) -> Result<Expr, Misread> {
        let mut expr = self.atom()?;
        for _ in 0..MAX_CHAIN {
            expr = match self.peek() {
                Some('*') => Expr::Degree(Box::new(expr), self.factor()?),
                Some('^') => Expr::Power(Box::new(expr), self.factor()?),
                _ => return Ok(expr),
            };
        }
        match self.peek() {
            Some('*' | '^') => Err(self.misread(format!("at most {MAX_CHAIN} of `*n` and `^n` behind each other"))),
            _ => Ok(expr),
        }
    }

    /// The number behind `*` or `^`.
    fn factor(&mut self) -> Result<u32, Misread> {
        self.at += 1;
        self.peek();
        let at = self.at;
        match self.number()? {
            number if number >= 2 => Ok(number),
            _ => Err(self.misread_at(at, "a number, 2 or more")),
        }
    }

    fn number(&mut self) -> Result<u32, Misread> {
        self.peek();
        let digits: String = self.chars.iter().skip(self.at).take_while(|c| c.is_ascii_digit()).collect();
        match digits.parse() {
            Ok(number) => {
                self.at += digits.len();
                Ok(number)
            }
            Err(_) => Err(self.misread("a whole number below 2^32")),
        }
    }

    fn bracketed(&mut self) -> Result<Box<Expr>, Misread> {
        self.expect('(', "`(` and a graph")?;
        let expr = self.product()?;
        self.expect(')', "`x` and another graph, `*n`, `^n`, or `)`")?;
        Ok(Box::new(expr))
    }

    fn atom(&mut self) -> Result<Expr, Misread> {
        if self.peek() == Some('(') {
            return self.bracketed().map(|expr| *expr);
        }
        let start = self.at;
        let word: String = self.chars.iter().skip(start).take_while(|c| c.is_ascii_alphabetic()).collect();
        self.at += word.len();
        match word.as_str() {
            "L" if self.takes('^') => {
                self.peek();
                let at = self.at;
                match self.number()? {
                    times @ 1..=20 => Ok(Expr::Line(times, self.bracketed()?)),
                    _ => Err(self.misread_at(at, "1 to 20 line expansions")),
                }
            }
            "L" => Ok(Expr::Line(1, self.bracketed()?)),
            "Bi" => Ok(Expr::Bidirectional(self.bracketed()?)),
            "T" => Ok(Expr::Transposed(self.bracketed()?)),
            "Diamond" => Ok(Family::Diamond.into()),
            word if WORDS.contains(&word) => {
                let arguments = self.arguments()?;
                match family(word, arguments) {
                    Ok(family) => Ok(family.into()),
                    Err(allowed) => Err(self.misread_at(start, allowed)),
                }
            }
            word => {
                let known = || WORDS.iter().copied().chain(["L", "Bi", "T"]);
                let near = hint(word, known()).map(|hint| format!("; {hint}")).unwrap_or_default();
                let known: Vec<&str> = known().collect();
                Err(self.misread_at(start, format!("a graph: {} or `(`{near}", known.join(", "))))
            }
        }
    }

    /// `(…)` behind the word of a family.
    fn arguments(&mut self) -> Result<Vec<Argument>, Misread> {
        self.expect('(', "`(` and the family's parameters")?;
        let mut arguments = Vec::new();
        loop {
            arguments.push(match self.peek() {
                Some('{') => {
                    self.at += 1;
                    let mut set = vec![self.number()?];
                    while self.takes(',') {
                        set.push(self.number()?);
                    }
                    self.expect('}', "`,` and another offset, or `}`")?;
                    Argument::Set(set)
                }
                Some('(') => {
                    self.at += 1;
                    let i = self.number()?;
                    self.expect(',', "`,` and the second number of the pair")?;
                    let j = self.number()?;
                    self.expect(')', "`)`")?;
                    Argument::Pair(i, j)
                }
                Some(c) if c.is_ascii_lowercase() => {
                    let word: String = self.chars.iter().skip(self.at).take_while(|c| c.is_ascii_lowercase()).collect();
                    self.at += word.len();
                    Argument::Word(word)
                }
                _ => Argument::Number(self.number()?),
            });
            if self.takes(')') {
                return Ok(arguments);
            }
            if !self.takes(',') && !self.takes(';') {
                return Err(self.misread("`,` and another parameter, or `)`"));
            }
        }
    }
}

/// The family with these arguments, or how it is written.
fn family(word: &str, arguments: Vec<Argument>) -> Result<Family, &'static str> {
    use Argument::{Number, Pair, Set, Word};
    let numbers = || {
        arguments.iter().map(|argument| match argument {
            Number(number) => Some(*number),
            _ => None,
        })
    };
    let plain: Option<Vec<u32>> = numbers().collect();
    let plain = plain.as_deref();
    match (word, plain) {
        ("K", Some(&[m])) => Ok(Family::Complete { m }),
        ("K", Some(&[d, other])) if d == other => Ok(Family::Bipartite { d }),
        ("K", _) => Err("K(m), complete, or K(d,d), complete bipartite with equal sides"),
        ("H", Some(&[k, q])) => Ok(Family::Hamming { k, q }),
        ("H", _) => Err("H(k,q): k coordinates of q values"),
        ("Q", Some(&[k])) => Ok(Family::Hypercube { k }),
        ("Q", _) => Err("Q(k): 2^k vertices"),
        ("TQ", Some(&[3])) => Ok(Family::TwistedCube),
        ("TQ", _) => Err("TQ(3)"),
        ("UniRing", Some(&[d, m])) => Ok(Family::UniRing { d, m }),
        ("UniRing", _) => Err("UniRing(d,m): m vertices, d links to the next"),
        ("BiRing", Some(&[d, m])) => Ok(Family::BiRing { d, m }),
        ("BiRing", _) => Err("BiRing(d,m): m vertices of even degree d"),
        ("Torus", Some(sizes)) => Ok(Family::Torus { sizes: sizes.to_vec() }),
        ("Torus", _) => Err("Torus(a,b,…): the sizes"),
        ("TwistedTorus", Some(&[a, b, s])) => Ok(Family::TwistedTorus { a, b, s }),
        ("TwistedTorus", _) => Err("TwistedTorus(a,b,s): two sizes and the twist"),
        ("Pi", Some(&[d, m])) => Ok(Family::GeneralizedKautz { d, m }),
        ("Pi", _) => Err("Pi(d,m): m vertices of degree d"),
        ("Kautz", Some(&[d, k])) => Ok(Family::Kautz { d, k }),
        ("Kautz", _) => Err("Kautz(d,k): the k-fold line graph of K(d+1)"),
        ("DBJ", Some(&[d, k])) => Ok(Family::DeBruijn { d, k }),
        ("DBJ", _) => Err("DBJ(d,k): words of k digits below d"),
        ("GDBJ", Some(&[d, m])) => Ok(Family::GeneralizedDeBruijn { d, m }),
        ("GDBJ", _) => Err("GDBJ(d,m): m vertices of degree d"),
        ("DistReg", Some(&[4, n])) => Ok(Family::DistanceRegular { n }),
        ("DistReg", _) => Err("DistReg(4,n): the distance-regular graph of degree 4 with n vertices"),
        ("DBJMod", Some(&[d, k])) => Ok(Family::ModifiedDeBruijn { d, k }),
        ("DBJMod", _) => Err("DBJMod(d,k)"),
        ("C", _) => {
            const ALLOWED: &str = "C(n,{a,b,…}), with `,single` or `,double` behind it for an offset of n/2";
            let (n, offsets, half) = match arguments.as_slice() {
                [Number(n), Set(offsets)] => (n, offsets, Half::Refused),
                [Number(n), Set(offsets), Word(word)] if word == "single" => (n, offsets, Half::Single),
                [Number(n), Set(offsets), Word(word)] if word == "double" => (n, offsets, Half::Double),
                _ => return Err(ALLOWED),
            };
            Ok(Family::Circulant { n: *n, offsets: offsets.clone(), half })
        }
        ("DC", _) => match arguments.as_slice() {
            [Number(n), Set(offsets)] => Ok(Family::DirectedCirculant { n: *n, offsets: offsets.clone() }),
            _ => Err("DC(n,{a,b,…})"),
        },
        _ => {
            const ALLOWED: &str = "MC(a,b,r,c;(i,j),…): the group and its generators";
            let [Number(a), Number(b), Number(r), Number(c), pairs @ ..] = arguments.as_slice() else {
                return Err(ALLOWED);
            };
            let pair = |argument: &Argument| match argument {
                Pair(i, j) => Some((*i, *j)),
                _ => None,
            };
            let generators = pairs.iter().map(pair).collect::<Option<Vec<_>>>().filter(|pairs| !pairs.is_empty());
            let generators = generators.ok_or(ALLOWED)?;
            Ok(Family::Metacyclic(Metacyclic { a: *a, b: *b, r: *r, c: *c, generators }))
        }
    }
}
