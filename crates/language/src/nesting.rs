//! Rejects two kinds of sources that the compiler cannot handle. With deeply nested brackets, it
//! would take too much time and stack. With an unterminated comment, it would never return.

use crate::LanguageError;

/// The largest nesting depth of brackets in a source. Hand-written sources have a much smaller
/// depth.
const MAX_NESTING: usize = 200;

/// Rejects a source with too deeply nested brackets or an unterminated comment.
pub(crate) fn check(source: &str) -> Result<(), LanguageError> {
    let mut depth = 0_usize;
    // The nesting depth of comments, and the line and column at which the outermost one starts.
    let mut comments = 0_usize;
    let mut begin = (1, 1);
    for (line, text) in source.lines().enumerate() {
        let mut previous = ' ';
        for (column, character) in text.chars().enumerate() {
            let pair = (previous, character);
            // A character is part of at most one comment delimiter: `/*/` only begins a comment.
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
                let problem = format!("brackets are nested more than {MAX_NESTING} deep");
                return Err(at((line + 1, column + 1), problem));
            }
        }
    }
    if comments > 0 {
        return Err(at(begin, "this comment is not terminated".to_owned()));
    }
    Ok(())
}

/// Returns an error whose position is this line and column, both counted from 1.
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
        assert_eq!(error, "2:203: brackets are nested more than 200 deep");
        assert!(check(&"[({})]".repeat(1000)).is_ok());
        assert!(check(&close).is_ok());
        assert!(check(&format!("// {open}\nx")).is_ok());
        assert!(check(&format!("/* /* {open} */\n {open} */ x")).is_ok());
        assert!(check(&format!("/* /* {open} */\n */ x {open}")).is_err());
        assert!(check(&format!("/*/ {open} */ x")).is_ok());
    }

    #[test]
    fn unterminated_comments_are_rejected() {
        for (source, at) in [
            ("/*", "1:1"),
            ("x /* /* */\n", "1:3"),
            ("/* */\n  /*/\n*", "2:3"),
            ("/* *\n/", "1:1"),
            ("*/*", "1:2"),
        ] {
            let error = check(source).unwrap_err().to_string();
            assert_eq!(error, format!("{at}: this comment is not terminated"));
        }
        for source in ["// /*", "/**/", "/* // */", "*/", "/***/ x", "/* /**/*/"] {
            assert!(check(source).is_ok(), "{source}");
        }
    }
}
