//! Filters of runs. They are parsed from query parameters.

use rusqlite::types::Value;

use super::super::error::ApiError;

/// Maximum number of values for one column of a filter.
const MAX_VALUES: usize = 200;

/// Maximum number of runs that a request may name by their numbers.
pub(super) const MAX_IDS: usize = 2000;

/// Maximum length of a search text, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// The query parameters of a request that no handler has read yet. Each can be read once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    #[cfg(test)]
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self(pairs.into_iter().map(own).collect())
    }

    pub(crate) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Removes a parameter and returns its value. An empty value is treated as absent.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(index) = self.0.iter().position(|(known, _)| known == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.swap_remove(index);
        if self.0.iter().any(|(known, _)| known == name) {
            return Err(ApiError::bad(format!("{name} is given twice")));
        }
        Ok((!value.is_empty()).then_some(value))
    }

    /// Removes a parameter and parses its value.
    pub(crate) fn read<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.take(name)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(ApiError::bad(format!(
                "{name}: {text:?} is not a valid number"
            ))),
        }
    }

    /// Returns an error if a parameter remains. Otherwise, a request with a misspelled filter would
    /// select all runs.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.0.first() {
            Some((name, _)) => Err(ApiError::bad(format!("unknown parameter {name:?}"))),
            None => Ok(()),
        }
    }
}

/// A filter of runs. It selects the runs for which all its conditions hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    words: Vec<(&'static str, Vec<String>)>,
    numbers: Vec<(&'static str, f64)>,
    times: Vec<(&'static str, i64)>,
    ids: Option<Vec<i64>>,
    text: Option<String>,
}

impl Filter {
    /// Parses the conditions among the parameters.
    pub(crate) fn parse(params: &mut Params) -> Result<Self, ApiError> {
        let mut filter = Self::default();
        for column in [
            "circuit",
            "scheme",
            "transport",
            "scenario",
            "state",
            "kind",
        ] {
            if let Some(text) = params.take(column)? {
                let words = split(&text);
                if words.len() > MAX_VALUES || text.len() > MAX_TEXT_BYTES * 16 {
                    return Err(ApiError::bad(format!("{column}: too many values")));
                }
                filter.words.push((column, words));
            }
        }
        for (name, condition) in [
            ("rtt_min", "rtt_ms >= ?"),
            ("rtt_max", "rtt_ms <= ?"),
            ("loss_min", "loss >= ?"),
            ("loss_max", "loss <= ?"),
            ("rate_min", "rate_mbit >= ?"),
            ("rate_max", "rate_mbit <= ?"),
        ] {
            if let Some(number) = params.read::<f64>(name)? {
                if !number.is_finite() {
                    return Err(ApiError::bad(format!("{name}: not a finite number")));
                }
                filter.numbers.push((condition, number));
            }
        }
        for (name, condition) in [
            ("job", "job = ?"),
            ("since", "started_unix_ms >= ?"),
            ("until", "started_unix_ms <= ?"),
        ] {
            if let Some(number) = params.read::<i64>(name)? {
                filter.times.push((condition, number));
            }
        }
        if let Some(text) = params.take("ids")? {
            let ids = (text
                .split(',')
                .map(str::parse)
                .collect::<Result<Vec<_>, _>>())
            .map_err(|_| ApiError::bad("ids: expected comma-separated numbers"))?;
            filter.ids = Some(check_ids(ids)?);
        }
        if let Some(text) = params.take("q")? {
            if text.len() > MAX_TEXT_BYTES {
                return Err(ApiError::bad("q: too long"));
            }
            filter.text = Some(text);
        }
        Ok(filter)
    }

    /// Selects the runs with these numbers.
    pub(crate) fn of_ids(ids: Vec<i64>) -> Self {
        Self {
            ids: Some(ids),
            ..Self::default()
        }
    }

    /// Selects the runs of a job.
    pub(crate) fn of_job(job: i64) -> Self {
        Self {
            times: vec![("job = ?", job)],
            ..Self::default()
        }
    }

    /// Selects the successful runs of a circuit with a scheme and a number of evaluations.
    pub(crate) fn of_work(circuit: &str, scheme: &str, batch: u64) -> Self {
        let word = |text: &str| vec![text.to_owned()];
        Self {
            words: vec![
                ("circuit", word(circuit)),
                ("scheme", word(scheme)),
                ("state", word("ok")),
                ("kind", word("run")),
            ],
            times: vec![("batch = ?", super::sql_integer(batch))],
            ..Self::default()
        }
    }

    /// Returns an SQL condition and the values of its placeholders.
    pub(super) fn condition(&self) -> (String, Vec<Value>) {
        let mut condition = "1".to_owned();
        let mut values = Vec::new();
        for (column, words) in &self.words {
            let marks = vec!["?"; words.len()].join(", ");
            condition.push_str(&format!(" AND {column} IN ({marks})"));
            values.extend(words.iter().cloned().map(Value::from));
        }
        for &(comparison, number) in &self.numbers {
            condition.push_str(&format!(" AND {comparison}"));
            values.push(number.into());
        }
        for &(comparison, number) in &self.times {
            condition.push_str(&format!(" AND {comparison}"));
            values.push(number.into());
        }
        if let Some(ids) = &self.ids {
            let marks = vec!["?"; ids.len()].join(", ");
            condition.push_str(&format!(" AND id IN ({marks})"));
            values.extend(ids.iter().copied().map(Value::from));
        }
        if let Some(text) = &self.text {
            condition.push_str(
                " AND instr(lower(scenario || ' ' || circuit_label || ' ' || transport || ' ' || ifnull(error, '')), lower(?)) > 0",
            );
            values.push(text.clone().into());
        }
        (condition, values)
    }
}

/// Checks that a list has at most [`MAX_IDS`] run numbers.
pub(crate) fn check_ids(ids: Vec<i64>) -> Result<Vec<i64>, ApiError> {
    if ids.len() > MAX_IDS {
        return Err(ApiError::bad(format!(
            "ids: expected at most {MAX_IDS}, found {}",
            ids.len()
        )));
    }
    Ok(ids)
}

/// Splits text at commas. A backslash escapes a comma or a backslash.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        match (character, escaped) {
            ('\\', false) => {
                escaped = true;
                continue;
            }
            (',', false) => words.push(String::new()),
            _ => {
                if let Some(word) = words.last_mut() {
                    word.push(character);
                }
            }
        }
        escaped = false;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_words_unless_they_are_escaped() {
        assert_eq!(split("tcp,quic"), ["tcp", "quic"]);
        assert_eq!(split(r"eu-us\,rtt=80,lan"), ["eu-us,rtt=80", "lan"]);
        assert_eq!(split(r"a\\b"), [r"a\b"]);
    }

    #[test]
    fn text_of_a_request_never_becomes_sql() {
        let mut params = Params::of([
            ("transport", "x' OR 1 --"),
            ("q", "%'; DROP TABLE runs"),
            ("rtt_min", "1"),
        ]);
        let filter = Filter::parse(&mut params).unwrap();
        let (condition, values) = filter.condition();
        assert!(!condition.contains("OR") && !condition.contains("DROP"));
        assert_eq!(condition.matches('?').count(), values.len());
        params.finish().unwrap();
    }

    #[test]
    fn invalid_filters_are_rejected() {
        for pair in [
            ("rtt_min", "x"),
            ("rtt_min", "inf"),
            ("job", "1.5"),
            ("ids", "1,,2"),
            ("ids", "1; DELETE"),
        ] {
            assert!(Filter::parse(&mut Params::of([pair])).is_err(), "{pair:?}");
        }
        let mut unknown = Params::of([("transprot", "tcp")]);
        Filter::parse(&mut unknown).unwrap();
        assert!(unknown.finish().is_err());
        let twice = &mut Params::of([("q", "a"), ("q", "b")]);
        assert!(Filter::parse(twice).is_err());
        let many = vec!["1"; MAX_IDS + 1].join(",");
        assert!(Filter::parse(&mut Params::of([("ids", many.as_str())])).is_err());
    }
}
