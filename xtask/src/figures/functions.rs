//! Functions of a file: where they are, and what they take.

use super::code::SourceLine;

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Lines from its signature to its last brace, counted from 0.
    pub first: usize,
    pub last: usize,
    /// The line in which its body begins.
    pub body: usize,
    pub parameters: Vec<String>,
}

impl Function {
    pub fn len(&self) -> usize {
        self.last - self.first + 1
    }

    pub fn takes_bool(&self) -> usize {
        let is = |parameter: &&String| {
            let kind = parameter.rsplit_once(": ").map_or("", |(_, kind)| kind);
            kind.trim_start_matches('&') == "bool"
        };
        self.parameters.iter().filter(is).count()
    }

    pub fn takes_tuples(&self) -> usize {
        let is = |parameter: &&String| {
            let kind = parameter.split_once(": ").map_or("", |(_, kind)| kind);
            parameter.starts_with('(') || kind.trim_start_matches('&').starts_with('(')
        };
        self.parameters.iter().filter(is).count()
    }
}

/// All functions with a body, nested ones too.
pub fn functions(lines: &[SourceLine]) -> Vec<Function> {
    let starts = lines.iter().enumerate().flat_map(|(at, line)| {
        line.code.match_indices("fn ").filter_map(move |(column, _)| {
            let named =
                line.code[column + 3..].starts_with(|c: char| c.is_alphabetic() || c == '_');
            let word = line.code[..column].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            (named && !word).then_some((at, column))
        })
    });
    starts.filter_map(|(at, column)| function(lines, at, column)).collect()
}

/// The function whose `fn` is there; `None` if it has no body.
fn function(lines: &[SourceLine], first: usize, column: usize) -> Option<Function> {
    let mut parameters = Parameters::default();
    let (mut nested, mut depth, mut body) = (0, 0, None);
    for (at, line) in lines.iter().enumerate().skip(first) {
        let skipped = if at == first { column } else { 0 };
        for c in line.code[skipped..].chars() {
            match (body, c) {
                // Until the body begins, what stands in brackets belongs to the signature.
                (None, ';') if nested == 0 => return None,
                (None, '{') if nested == 0 => (body, depth) = (Some(at), 1),
                (None, '(' | '[' | '{') => nested += 1,
                (None, ')' | ']' | '}') => nested -= 1,
                (Some(_), '{') => depth += 1,
                (Some(_), '}') => depth -= 1,
                _ => (),
            }
            if body.is_none() {
                parameters.take(c);
            }
            if let (Some(body), 0) = (body, depth) {
                return Some(Function { first, last: at, body, parameters: parameters.all });
            }
        }
        parameters.take(' ');
    }
    None
}

/// The parameters between the first brackets of a signature.
#[derive(Default)]
struct Parameters {
    /// Brackets that are open; angles count only within.
    open: u32,
    done: bool,
    one: String,
    all: Vec<String>,
    last: char,
}

impl Parameters {
    fn take(&mut self, c: char) {
        let arrow = c == '>' && self.last == '-';
        self.last = c;
        // Generics before the brackets are none, but may hold some: `<F: Fn(bool)>`.
        match c {
            _ if self.done || arrow => self.push(c),
            '<' | '(' | '[' | '{' => {
                self.open += 1;
                let opens = self.open == 1 && c == '(';
                if self.open > 1 && !opens {
                    self.push(c);
                }
            }
            '>' | ')' | ']' | '}' => {
                self.open = self.open.saturating_sub(1);
                if self.open > 0 {
                    self.push(c);
                } else if c == ')' {
                    self.end();
                    self.done = true;
                } else {
                    self.one.clear();
                    self.all.clear();
                }
            }
            ',' if self.open == 1 => self.end(),
            _ => self.push(c),
        }
    }

    fn push(&mut self, c: char) {
        if !self.done && self.open > 0 {
            self.one.push(c);
        }
    }

    fn end(&mut self) {
        let one = self.one.split_whitespace().collect::<Vec<_>>().join(" ");
        if !one.is_empty() {
            self.all.push(one);
        }
        self.one.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::lines;
    use super::*;

    fn of(text: &str) -> Vec<Function> {
        functions(&lines(text))
    }

    #[test]
    fn lengths_are_from_signature_to_brace() {
        let text = "pub fn a(\n    x: u8,\n) -> u8 {\n    if x > 1 { 2 } else { x }\n}\ntrait T {\n    fn b();\n    \
                    fn c() {}\n}\nstruct S { f: fn(u8) }\n";
        let found = of(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].first, found[0].body, found[0].len()), (0, 2, 5));
        assert_eq!((found[1].first, found[1].len()), (7, 1));
    }

    #[test]
    fn nested_functions_count_each() {
        let found = of("fn a() {\n    fn b() {\n        c();\n    }\n}\n");
        assert_eq!(found.iter().map(Function::len).collect::<Vec<_>>(), [5, 3]);
    }

    #[test]
    fn parameters_are_told_apart() {
        let text = "fn a<F: Fn(bool) -> u8, const N: usize>(&self, (x, y): (u8, bool), f: F, z: bool, w: &bool,\n    \
                    m: Map<u8, (u8, u8)>, t: &(u8, u8), s: [u8; 2]) -> Result<(), bool> where F: Sized {\n}\n";
        let found = &of(text)[0];
        let expected = [
            "&self",
            "(x, y): (u8, bool)",
            "f: F",
            "z: bool",
            "w: &bool",
            "m: Map<u8, (u8, u8)>",
            "t: &(u8, u8)",
            "s: [u8; 2]",
        ];
        assert_eq!(found.parameters, expected);
        assert_eq!((found.takes_bool(), found.takes_tuples()), (2, 2));
    }

    #[test]
    fn arrays_in_a_signature_end_nothing() {
        let found = of("fn a(x: [u8; 4]) -> [u8; 2] {\n    b\n}\n");
        assert_eq!(found[0].len(), 3);
    }
}
