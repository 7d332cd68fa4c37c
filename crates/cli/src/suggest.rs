//! Suggestions for misspelled names.

/// Maximum number of suggestions in a message.
const MAX_SUGGESTIONS: usize = 3;

/// Maximum number of compared characters of a name. It bounds the time, which is quadratic. No
/// known name is longer.
const MAX_NAME: usize = 64;

/// Returns the candidates that are similar to `text`, closest first.
pub(crate) fn close<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let text: String = text.chars().take(MAX_NAME).collect();
    let mut close: Vec<_> = (candidates.into_iter())
        .map(|candidate| (distance(&text, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len().min(text.len()) / 4)
        .collect();
    // The sort is stable, so equally close names keep the order of the candidates.
    close.sort_by_key(|&(distance, _)| distance);
    close.truncate(MAX_SUGGESTIONS);
    close.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns `; did you mean …?` with the candidates that are similar to `text`. Returns an empty
/// text if there are none.
pub(crate) fn did_you_mean<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    match &close(text, candidates)[..] {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// Returns the optimal string alignment distance: the minimum number of insertions, deletions and
/// replacements of a character, and of exchanges of two adjacent characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = above[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_exchanges() {
        for (a, b, expected) in [
            ("kitten", "sitting", 3),
            ("aes128", "aes128", 0),
            ("aes-128", "aes128", 1),
            ("rnu", "run", 1),
            ("htcp", "tcp", 1),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_closest_names_come_first_and_others_not_at_all() {
        let names = ["run", "serve", "demo", "link"];
        assert_eq!(close("rnu", names), ["run"]);
        assert_eq!(close("sreve", names), ["serve"]);
        assert!(close("quicksort", names).is_empty());
        assert_eq!(did_you_mean("rnu", names), "; did you mean run?");
        assert_eq!(did_you_mean("quicksort", names), "");
    }
}
