//! Rust text by lines: what of each is code, and whether it has a comment.

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLine {
    /// Without comments; strings and characters are empty.
    pub code: String,
    pub has_comment: bool,
}

impl SourceLine {
    pub fn is_code(&self) -> bool {
        !self.code.trim().is_empty()
    }

    /// Whether it has a comment and no code.
    pub fn is_comment(&self) -> bool {
        self.has_comment && !self.is_code()
    }
}

/// What the next character belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Code,
    LineComment,
    /// How deep they are nested.
    BlockComment(u32),
    Text,
    /// How many `#` end it.
    RawText(usize),
}

/// Splits `text` into lines.
pub fn lines(text: &str) -> Vec<SourceLine> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![SourceLine::default()];
    let (mut within, mut at) = (Within::Code, 0);
    while let Some(&c) = chars.get(at) {
        if c == '\n' {
            if within == Within::LineComment {
                within = Within::Code;
            }
            let has_comment = matches!(within, Within::BlockComment(_));
            lines.push(SourceLine { has_comment, ..SourceLine::default() });
            at += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is a line");
        let rest = &chars[at..];
        let (next, len) = match within {
            Within::Code => code(rest, line),
            Within::LineComment => (within, 1),
            Within::BlockComment(depth) => block(rest, depth),
            Within::Text => match c {
                '\\' => (within, if rest.get(1) == Some(&'\n') { 1 } else { 2 }),
                '"' => (Within::Code, 1),
                _ => (within, 1),
            },
            Within::RawText(hashes) => {
                let ends =
                    c == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
                if ends { (Within::Code, 1 + hashes) } else { (within, 1) }
            }
        };
        within = next;
        at += len;
    }
    if lines.last().is_some_and(|line| *line == SourceLine::default()) {
        lines.pop();
    }
    lines
}

/// One step in code: what follows, and how many characters it took.
fn code(rest: &[char], line: &mut SourceLine) -> (Within, usize) {
    let is = |text: &str| text.chars().enumerate().all(|(at, c)| rest.get(at) == Some(&c));
    if is("//") || is("/*") {
        line.has_comment = true;
        return (if is("//") { Within::LineComment } else { Within::BlockComment(1) }, 2);
    }
    let in_word = line.code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let prefix = if is("br") { 2 } else { usize::from(is("r")) };
    if prefix > 0 && !in_word {
        let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
        if rest.get(prefix + hashes) == Some(&'"') {
            line.code.push('"');
            return (Within::RawText(hashes), prefix + hashes + 1);
        }
    }
    match rest[0] {
        '"' => {
            line.code.push('"');
            (Within::Text, 1)
        }
        '\'' => {
            line.code.push('\'');
            (Within::Code, character(rest))
        }
        c => {
            line.code.push(c);
            (Within::Code, 1)
        }
    }
}

/// Characters of the literal that begins here, or 1 for the quote of a lifetime.
fn character(rest: &[char]) -> usize {
    match rest.get(1) {
        Some('\\') => {
            let end = rest.iter().skip(3).position(|c| *c == '\'');
            end.map_or(1, |end| end + 4)
        }
        Some(_) if rest.get(2) == Some(&'\'') => 3,
        _ => 1,
    }
}

fn block(rest: &[char], depth: u32) -> (Within, usize) {
    match rest {
        ['/', '*', ..] => (Within::BlockComment(depth + 1), 2),
        ['*', '/', ..] if depth == 1 => (Within::Code, 2),
        ['*', '/', ..] => (Within::BlockComment(depth - 1), 2),
        _ => (Within::BlockComment(depth), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn texts_and_characters_are_empty() {
        assert_eq!(codes(r#"let a = "{ \" // }"; b"#), [r#"let a = "; b"#]);
        assert_eq!(codes("let a = r#\"{ \" }\"#; b"), ["let a = \"; b"]);
        assert_eq!(
            codes("f('{', '\\'', b'\\n', '\\u{7f}') 'a: &'a x"),
            ["f(', ', b', ') 'a: &'a x"]
        );
        assert_eq!(codes("var\"{\" {"), ["var\" {"]);
        assert_eq!(codes("a = \"one \\\n   {\";\nb"), ["a = \"", ";", "b"]);
    }

    #[test]
    fn comments_are_no_code() {
        let found = lines("/// Doc {\nx(); // why {\n/* a /* b\n */ c {\n*/ y();\n\nz\n");
        let has: Vec<(bool, bool)> =
            found.iter().map(|line| (line.is_code(), line.has_comment)).collect();
        assert_eq!(
            has,
            [
                (false, true),
                (true, true),
                (false, true),
                (false, true),
                (true, true),
                (false, false),
                (true, false)
            ]
        );
        assert_eq!(found[1].code, "x(); ");
    }
}
