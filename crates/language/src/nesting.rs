//! How deep a source nests its brackets: the compiler takes time and stack for every level.

use crate::LanguageError;

/// The most brackets inside one another; nobody writes as many.
const MAX_NESTING: usize = 200;

/// Refuses a source with too many brackets inside one another.
pub(crate) fn check(source: &str) -> Result<(), LanguageError> {
    let mut depth = 0_usize;
    // Comments nest too.
    let mut comments = 0_usize;
    for (line, text) in source.lines().enumerate() {
        let mut previous = ' ';
        for (column, character) in text.chars().enumerate() {
            let pair = (previous, character);
            // What belongs to one mark begins no other.
            previous = ' ';
            match pair {
                ('/', '/') if comments == 0 => break,
                ('/', '*') => comments += 1,
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
                return Err(LanguageError::Source {
                    line: line + 1,
                    column: column + 1,
                    problem: format!("there are more than {MAX_NESTING} brackets around this"),
                    others: 0,
                });
            }
        }
    }
    Ok(())
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
}
