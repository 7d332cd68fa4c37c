//! What the compiler is not to see: deep nesting of brackets, of which every level takes time and stack, and comments
//! without an end, which it reads for ever.

use crate::LanguageError;

/// The most brackets inside one another; nobody writes as many.
const MAX_NESTING: usize = 200;

/// Refuses a source with too many brackets inside one another, or with a comment that nothing ends.
pub(crate) fn check(source: &str) -> Result<(), LanguageError> {
    let mut depth = 0_usize;
    // Comments nest too. The outermost one began at this line and column.
    let mut comments = 0_usize;
    let mut begin = (1, 1);
    for (line, text) in source.lines().enumerate() {
        let mut previous = ' ';
        for (column, character) in text.chars().enumerate() {
            let pair = (previous, character);
            // What belongs to one mark begins no other.
            previous = ' ';
            match pair {
                ('/', '/') if comments == 0 => break,
                ('/', '*') => {
                    if comments == 0 {
                        begin = (line + 1, column);
                    }
                    comments += 1;
                }
                ('*', '/') if comments > 0 => comments -= 1,
                _ => previous = character,
            }
            match character {
                _ if comments > 0 => {}
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_NESTING {
                let problem = format!("there are more than {MAX_NESTING} brackets around this");
                return Err(at((line + 1, column + 1), problem));
            }
        }
    }
    if comments > 0 {
        return Err(at(begin, "nothing ends this comment".to_owned()));
    }
    Ok(())
}

/// Returns an error at a line and column.
fn at((line, column): (usize, usize), problem: String) -> LanguageError {
    LanguageError::Source {
        line,
        column,
        problem,
        others: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_and_comments_are_not() {
        let open = "[({".repeat(MAX_NESTING / 3 + 1);
        let close = "})]".repeat(MAX_NESTING / 3 + 1);
        let error = check(&format!("\n  {open}")).unwrap_err().to_string();
        assert_eq!(error, "2:203: there are more than 200 brackets around this");
        assert!(check(&"[({})]".repeat(1000)).is_ok());
        assert!(check(&close).is_ok());
        assert!(check(&format!("// {open}\nx")).is_ok());
        assert!(check(&format!("/* /* {open} */\n {open} */ x")).is_ok());
        assert!(check(&format!("/* /* {open} */\n */ x {open}")).is_err());
        assert!(check(&format!("/*/ {open} */ x")).is_ok());
    }

    #[test]
    fn comments_without_an_end_are_refused() {
        for (source, at) in [
            ("/*", "1:1"),
            ("x /* /* */\n", "1:3"),
            ("/* */\n  /*/\n*", "2:3"),
            ("/* *\n/", "1:1"),
            ("*/*", "1:2"),
        ] {
            let error = check(source).unwrap_err().to_string();
            assert_eq!(error, format!("{at}: nothing ends this comment"));
        }
        for source in ["// /*", "/**/", "/* // */", "*/", "/***/ x", "/* /**/*/"] {
            assert!(check(source).is_ok(), "{source}");
        }
    }
}
