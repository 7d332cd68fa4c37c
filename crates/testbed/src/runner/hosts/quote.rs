//! Quoting of arguments for the shell of a remote host.

/// Joins the words of a command, quoted so that a shell passes each of them on unchanged.
///
/// ssh hands one text to the login shell of the user. Single quotes have the same meaning in the
/// POSIX shell, fish and csh, except for a line break, which csh rejects.
pub(super) fn join<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let quoted = words.into_iter().map(|word| quote(word.as_ref()));
    quoted.collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_passes_hostile_words_on_unchanged() {
        let words = [
            "",
            " ",
            "plain",
            "it's",
            "''",
            "$HOME `id` $(id)",
            "a\"b\\c",
            "; rm -rf *",
            "-n",
            "two\nlines",
            "~ {a,b} ! # & | < > ?",
            "Übung/ä.txt",
        ];
        let command = join(["printf", r"%s\0"].iter().chain(&words));
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<_> = printed.split_terminator('\0').collect();
        assert_eq!(printed, words);
    }
}
