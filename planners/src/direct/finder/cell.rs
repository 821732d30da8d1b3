//! One cell of the table: the best graphs of a size and degree, from families and from smaller cells.

use super::base::{is_worthy, root};
use super::frontier::useful;
use super::{Candidate, Cell, Finder, Flags, Mode, Recipe};
use crate::direct::bfb::least_bandwidth;
use crate::direct::expand::cost::{self, StepsAndTime};
use crate::direct::{Expr, Refusal};
use crate::run::Stage;

impl Finder<'_, '_> {
    /// The candidates of a cell that are of use, as results or as bases.
    pub(super) fn cell(&mut self, key: Cell) -> Result<Vec<Candidate>, Refusal> {
        if let Some(known) = self.best.get(&key) {
            return Ok(known.clone());
        }
        let (n, d, mode) = key;
        if n < 2 || d == 0 {
            return Ok(Vec::new());
        }
        let mut all = self.worthy(key)?;
        self.run.check()?;
        let about = format_args!("{n} vertices of degree {d}");
        self.run.tell(Stage::Finder, self.values.computed(), 0, about);
        all.extend(self.other_base(n, d, mode)?);
        self.lines(key, &mut all)?;
        self.degrees(key, &mut all)?;
        self.powers(key, &mut all)?;
        self.both_ways(key, &mut all)?;
        let all = useful(all);
        self.best.insert(key, all.clone());
        Ok(all)
    }

    /// Line expansions; those of cables are one-way.
    fn lines(&mut self, (n, d, mode): Cell, all: &mut Vec<Candidate>) -> Result<(), Refusal> {
        if mode == Mode::Bidirectional || d < 2 || !n.is_multiple_of(d) {
            return Ok(());
        }
        for base in self.cell((n / d, d, mode))? {
            let said = cost::line(&(base.t_l, base.t_b.clone()), base.n);
            let flags = Flags { exact: false, bidirectional: false, simple: base.flags.loop_free, ..base.flags };
            let recipe = match &base.recipe {
                // The line expansion of a breadth-first schedule is one.
                Recipe::Bfb => Recipe::Bfb,
                other => Recipe::Line(Box::new(other.clone())),
            };
            self.construct(base.expr.clone().line(), recipe, (n, d), said, flags, all)?;
        }
        Ok(())
    }

    fn degrees(&mut self, (n, d, mode): Cell, all: &mut Vec<Candidate>) -> Result<(), Refusal> {
        let common = num_integer::gcd(n, d);
        for copies in (2..=common).filter(|copies| common.is_multiple_of(*copies)) {
            let bases = self.cell((n / copies, d / copies, mode))?;
            for base in bases.into_iter().filter(|base| base.flags.loop_free) {
                let said = cost::degree(&(base.t_l, base.t_b.clone()), base.n, copies);
                let expr = Expr::Degree(Box::new(base.expr), copies);
                let recipe = Recipe::Degree(Box::new(base.recipe));
                self.construct(expr, recipe, (n, d), said, base.flags, all)?;
            }
        }
        Ok(())
    }

    fn powers(&mut self, (n, d, mode): Cell, all: &mut Vec<Candidate>) -> Result<(), Refusal> {
        for exponent in (2..=d).filter(|exponent| d.is_multiple_of(*exponent)) {
            let Some(q) = root(n, exponent).filter(|q| *q >= 2) else { continue };
            for base in self.cell((q, d / exponent, mode))? {
                let said = cost::power(&(base.t_l, base.t_b.clone()), q, exponent);
                let expr = Expr::Power(Box::new(base.expr), exponent);
                let recipe = Recipe::Power(Box::new(base.recipe));
                self.construct(expr, recipe, (n, d), said, base.flags, all)?;
            }
        }
        Ok(())
    }

    /// One-way graphs that look like their transpose, together with it.
    fn both_ways(&mut self, (n, d, mode): Cell, all: &mut Vec<Candidate>) -> Result<(), Refusal> {
        if mode == Mode::Any || !d.is_multiple_of(2) {
            return Ok(());
        }
        for base in self.cell((n, d / 2, Mode::Any))?.into_iter().filter(|base| base.flags.mirrored) {
            // Opposite links of the base become parallel ones.
            let flags = Flags { simple: false, bidirectional: true, ..base.flags };
            let expr = Expr::Bidirectional(Box::new(base.expr));
            let recipe = Recipe::Bidirectional(Box::new(base.recipe));
            all.push(Candidate { expr, recipe, n, d, t_l: base.t_l, t_b: base.t_b, flags });
        }
        Ok(())
    }

    /// Adds a construction at the cost that its formula says, and, where it is small enough, at its exact value under a
    /// breadth-first schedule of its own.
    fn construct(
        &mut self,
        expr: Expr,
        recipe: Recipe,
        (n, d): (u32, u32),
        (t_l, t_b): StepsAndTime,
        flags: Flags,
        all: &mut Vec<Candidate>,
    ) -> Result<(), Refusal> {
        if n <= self.options.exact_limit && flags.constructible {
            let value = self.value(&expr)?;
            let flags = Flags { exact: true, ..flags };
            let candidate =
                Candidate { expr: expr.clone(), recipe: Recipe::Bfb, n, d, t_l: value.t_l, t_b: value.t_b, flags };
            let settled = candidate.t_l <= t_l && candidate.t_b <= t_b;
            all.push(candidate);
            if settled {
                return Ok(());
            }
        }
        all.push(Candidate { expr, recipe, n, d, t_l, t_b, flags });
        Ok(())
    }

    /// Simple graphs with breadth-first schedules of the least time, fewest steps first: families and their products.
    fn worthy(&mut self, key: Cell) -> Result<Vec<Candidate>, Refusal> {
        if let Some(known) = self.worthy.get(&key) {
            return Ok(known.clone());
        }
        let (n, d, mode) = key;
        if n < 2 || d == 0 {
            return Ok(Vec::new());
        }
        let mut all = self.worthy_base(n, d, mode)?;
        for one in (2..n).filter(|one| n.is_multiple_of(*one)) {
            for degree in 1..d {
                let other = (n / one, d - degree);
                // Each pair once: the order of the factors changes nothing.
                if (one, degree) < other {
                    continue;
                }
                let (first, second) = (self.worthy((one, degree, mode))?, self.worthy((other.0, other.1, mode))?);
                all.extend(first.iter().flat_map(|first| second.iter().map(move |second| product(first, second))));
            }
        }
        debug_assert!(all.iter().all(is_worthy));
        let all = useful(all);
        self.worthy.insert(key, all.clone());
        Ok(all)
    }
}

fn product(first: &Candidate, second: &Candidate) -> Candidate {
    let factors = |of: &Candidate| match &of.expr {
        Expr::Product(factors) => factors.clone(),
        other => vec![other.clone()],
    };
    let mut all = factors(first);
    all.extend(factors(second));
    all.sort();
    let n = first.n * second.n;
    let both = |of: fn(&Flags) -> bool| of(&first.flags) && of(&second.flags);
    let flags = Flags {
        exact: true,
        simple: true,
        loop_free: true,
        bidirectional: both(|flags| flags.bidirectional),
        mirrored: both(|flags| flags.mirrored),
        constructible: both(|flags| flags.constructible),
    };
    let (d, t_l, t_b) = (first.d + second.d, first.t_l + second.t_l, least_bandwidth(n));
    Candidate { expr: together(all), recipe: Recipe::Bfb, n, d, t_l, t_b, flags }
}

/// Equal factors as powers.
fn together(sorted: Vec<Expr>) -> Expr {
    let mut factors: Vec<Expr> = Vec::new();
    for alike in sorted.chunk_by(|a, b| a == b) {
        factors.extend(match alike {
            [one] => Some(one.clone()),
            [one, ..] => Some(Expr::Power(Box::new(one.clone()), alike.len() as u32)),
            [] => None,
        });
    }
    if factors.len() == 1 { factors.remove(0) } else { Expr::Product(factors) }
}

/// Steps and τ of an all-gather on the transposed graph, made the same way.
pub fn transposed(expr: &Expr, recipe: &Recipe, finder: &mut Finder) -> Result<StepsAndTime, Refusal> {
    Ok(match (expr, recipe) {
        (Expr::Line(times, base), Recipe::Line(below)) => {
            let under = if *times > 1 { Expr::Line(times - 1, base.clone()) } else { (**base).clone() };
            let n = under.size()?.0;
            cost::line(&transposed(&under, below, finder)?, n)
        }
        (Expr::Degree(base, copies), Recipe::Degree(below)) => {
            cost::degree(&transposed(base, below, finder)?, base.size()?.0, *copies)
        }
        (Expr::Power(base, exponent), Recipe::Power(below)) => {
            cost::power(&transposed(base, below, finder)?, base.size()?.0, *exponent)
        }
        (Expr::Bidirectional(base), Recipe::Bidirectional(below)) => transposed(base, below, finder)?,
        _ => {
            let value = finder.value(&Expr::Transposed(Box::new(expr.clone())))?;
            (value.t_l, value.t_b)
        }
    })
}
