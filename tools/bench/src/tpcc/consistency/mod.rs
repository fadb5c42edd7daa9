//! What holds between the rows at every moment (clause 3.3.2), and between rows and indexes.

mod conditions;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;

use super::scale::Scale;
use super::schema::Schema;
use super::store::TableTransaction;
use conditions::{DISTRICT_RULES, WAREHOUSE_RULES};
use state::{DistrictState, Payments, WarehouseState};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The condition of this number.
    Condition(u8),
    Index(&'static str),
}

/// A rule that does not hold.
#[derive(Debug)]
struct Violation {
    rule: Rule,
    /// The row, and what is wrong with it.
    row: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Rule::Condition(no) => write!(f, "consistency condition {no} (clause 3.3.2.{no})")?,
            Rule::Index(name) => write!(f, "index {name}")?,
        }
        write!(f, ": {}", self.row)
    }
}

/// Checks all conditions as of the moment at which the transaction reads. The number of rows that were read.
///
/// # Errors
/// Each condition that is violated, with the first row.
pub(super) fn check<X: TableTransaction>(
    moment: &X,
    schema: &Schema<X::Table>,
    scale: Scale,
) -> Result<u64, String> {
    let checked = examine(moment, schema, scale)?;
    if checked.violations.is_empty() {
        return Ok(checked.rows);
    }
    let violations: Vec<String> = checked.violations.iter().map(Violation::to_string).collect();
    Err(violations.join("; "))
}

/// What a look at all rows found.
struct Examined {
    rows: u64,
    /// The first of each rule.
    violations: Vec<Violation>,
}

fn examine<X: TableTransaction>(
    moment: &X,
    schema: &Schema<X::Table>,
    scale: Scale,
) -> Result<Examined, String> {
    let mut examined = Examined { rows: 0, violations: Vec::new() };
    let mut warehouses = Vec::new();
    let mut payments = Payments::default();
    for warehouse in 1..=scale.warehouses {
        let mut state = WarehouseState::read(schema, moment, warehouse)?;
        for id in state.district_ids() {
            let district = DistrictState::read(schema, moment, id, scale, &mut payments)?;
            examined.rows += district.rows;
            let rules = DISTRICT_RULES.iter().map(|(rule, holds)| (*rule, holds(&district)));
            examined.note(rules);
            state.add(&district);
        }
        warehouses.push(state);
    }
    // A customer pays to any warehouse, so that these come when all districts are read.
    for state in warehouses {
        examined.rows += 1;
        let rules = WAREHOUSE_RULES.iter().map(|(rule, holds)| (*rule, holds(&state, &payments)));
        examined.note(rules);
    }
    Ok(examined)
}

impl Examined {
    fn note(&mut self, found: impl Iterator<Item = (Rule, Result<(), String>)>) {
        for (rule, held) in found {
            let is_new = self.violations.iter().all(|violation| violation.rule != rule);
            if let (Err(row), true) = (held, is_new) {
                self.violations.push(Violation { rule, row });
            }
        }
    }
}
