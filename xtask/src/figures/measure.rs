//! The figures of one crate.

use super::code::{SourceLine, lines};
use super::functions::{Function, functions};

/// Lines beyond which a file, and a function, is long.
const FILE_LONG: usize = 500;
const FUNCTION_LONG: usize = 70;
/// Asks whether a bug is planted here.
const PLANTED: &str = concat!("planted:", ":is(");

/// What was counted, of one crate or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    files: Vec<usize>,
    functions: Vec<usize>,
    /// Lines that are not blank, with code, and with a comment only.
    filled: usize,
    pub code: usize,
    comments: usize,
    /// The same lines inside functions.
    body_filled: usize,
    body_comments: usize,
    pub bools: usize,
    pub tuples: usize,
    pub planted: usize,
    pub planted_at_head: usize,
}

impl Measured {
    /// Counts a file, its tests left out.
    pub fn add(&mut self, text: &str) {
        let text = without_tests(text);
        let lines = lines(text);
        self.files.push(text.lines().count());
        let count = |is: fn(&SourceLine) -> bool| lines.iter().filter(|line| is(line)).count();
        self.code += count(SourceLine::is_code);
        self.comments += count(SourceLine::is_comment);
        self.filled += count(|line| line.is_code() || line.is_comment());
        let mut inside = vec![false; lines.len()];
        for function in functions(&lines) {
            self.functions.push(function.len());
            self.bools += function.takes_bool();
            self.tuples += function.takes_tuples();
            self.planted_at_head += planted_at_head(&lines, &function);
            inside[function.body..=function.last].fill(true);
        }
        for (line, _) in lines.iter().zip(inside).filter(|(_, inside)| *inside) {
            self.body_filled += usize::from(line.is_code() || line.is_comment());
            self.body_comments += usize::from(line.is_comment());
        }
        self.planted += lines.iter().filter(|line| line.code.contains(PLANTED)).count();
    }

    /// Adds the counts of another crate.
    pub fn join(&mut self, other: &Measured) {
        self.files.extend(&other.files);
        self.functions.extend(&other.functions);
        self.filled += other.filled;
        self.code += other.code;
        self.comments += other.comments;
        self.body_filled += other.body_filled;
        self.body_comments += other.body_comments;
        self.bools += other.bools;
        self.tuples += other.tuples;
        self.planted += other.planted;
        self.planted_at_head += other.planted_at_head;
    }

    /// The cells of a row, under [`HEADS`].
    pub fn cells(&self) -> Vec<String> {
        let long = |lengths: &[usize], max| lengths.iter().filter(|len| **len > max).count();
        let counts = |counts: &[usize]| counts.iter().map(usize::to_string).collect::<Vec<_>>();
        let mut cells =
            counts(&[self.files.len(), median(&self.files), long(&self.files, FILE_LONG)]);
        let longest = self.functions.iter().max().copied().unwrap_or(0);
        let functions = &self.functions;
        cells.extend(counts(&[
            functions.len(),
            median(functions),
            longest,
            long(functions, FUNCTION_LONG),
        ]));
        cells.push(percent(self.comments, self.filled));
        cells.push(percent(self.body_comments, self.body_filled));
        cells.extend(counts(&[
            self.bools,
            self.tuples,
            self.planted,
            self.planted_at_head,
            self.code,
        ]));
        cells
    }
}

/// What the cells of a row are.
pub const HEADS: [&str; 14] = [
    "files", "median", ">500", "fns", "median", "longest", ">70", "comment%", "in fns%", "bool",
    "tuple", "planted", "at head", "code",
];

/// The text before the module of tests that ends a file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn median(lengths: &[usize]) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Planted bugs before the first line of a function's own work.
fn planted_at_head(lines: &[SourceLine], function: &Function) -> usize {
    let (mut found, mut depth) = (0, 0_i32);
    for line in lines.iter().take(function.last).skip(function.body + 1) {
        let code = line.code.trim();
        if depth == 0 && !code.is_empty() && !code.contains(PLANTED) && code != "}" {
            break;
        }
        found += usize::from(code.contains(PLANTED));
        depth += code.matches('{').count() as i32 - code.matches('}').count() as i32;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(text: &str) -> Measured {
        let mut measured = Measured::default();
        measured.add(text);
        measured
    }

    #[test]
    fn a_file_is_counted() {
        let text = "//! Doc.\n\n/// Adds.\nfn a(x: bool) -> u8 {\n    // Why.\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    \
                    fn t(y: bool) {}\n}\n";
        let found = measured(text);
        assert_eq!((found.files.clone(), found.functions.clone()), (vec![8], vec![4]));
        assert_eq!((found.code, found.comments, found.filled), (3, 3, 6));
        assert_eq!((found.body_comments, found.body_filled, found.bools), (1, 4, 1));
        let cells = found.cells();
        assert_eq!(cells.len(), HEADS.len());
        assert_eq!((cells[7].as_str(), cells[8].as_str()), ("50.0", "25.0"));
    }

    #[test]
    fn planted_bugs_at_the_head_are_told_from_those_inside() {
        let head = format!(
            "fn a() {{\n    if {PLANTED}\"x\") {{\n        return;\n    }}\n    b();\n}}\n"
        );
        let inside = format!(
            "fn a() {{\n    b();\n    if {PLANTED}\"x\") {{\n        return;\n    }}\n}}\n"
        );
        let count = |text: &str| (measured(text).planted, measured(text).planted_at_head);
        assert_eq!((count(&head), count(&inside)), ((1, 1), (1, 0)));
        assert_eq!(count(&format!("// {PLANTED}\n")), (0, 0));
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(
            [median(&[]), median(&[3]), median(&[1, 9, 2]), median(&[1, 2, 3, 4])],
            [0, 3, 2, 3]
        );
    }
}
