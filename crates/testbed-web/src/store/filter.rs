//! Which runs are meant.

use rusqlite::types::Value;

use super::super::error::ApiError;

/// The most values of one filter.
const MOST_VALUES: usize = 200;

/// The most numbers of runs in a request.
pub(super) const MOST_IDS: usize = 2000;

/// The longest text of a filter, in bytes.
const LONGEST: usize = 4096;

/// The parameters of a query, each to be taken once.
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

    /// Takes a parameter; one that is empty counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(index) = self.0.iter().position(|(known, _)| known == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.swap_remove(index);
        if self.0.iter().any(|(known, _)| known == name) {
            return Err(ApiError::bad(format!("{name} is there twice")));
        }
        Ok((!value.is_empty()).then_some(value))
    }

    /// Takes a number or another thing that is read from text.
    pub(crate) fn read<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.take(name)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(ApiError::bad(format!("{name}: {text:?} is no number"))),
        }
    }

    /// Refuses what nobody took: a filter with a typing error must not be no filter.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.0.first() {
            Some((name, _)) => Err(ApiError::bad(format!("there is no parameter {name:?}"))),
            None => Ok(()),
        }
    }
}

/// Which runs are meant: those of which all is true.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    words: Vec<(&'static str, Vec<String>)>,
    numbers: Vec<(&'static str, f64)>,
    times: Vec<(&'static str, i64)>,
    ids: Option<Vec<i64>>,
    text: Option<String>,
}

impl Filter {
    /// Takes the filters among parameters.
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
                if words.len() > MOST_VALUES || text.len() > LONGEST * 16 {
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
            .map_err(|_| ApiError::bad("ids: numbers with commas between are expected"))?;
            filter.ids = Some(checked(ids)?);
        }
        if let Some(text) = params.take("q")? {
            if text.len() > LONGEST {
                return Err(ApiError::bad("q: too long"));
            }
            filter.text = Some(text);
        }
        Ok(filter)
    }

    /// Means the runs with these numbers.
    pub(crate) fn of_ids(ids: Vec<i64>) -> Self {
        Self {
            ids: Some(ids),
            ..Self::default()
        }
    }

    /// Means the runs of a job.
    pub(crate) fn of_job(job: i64) -> Self {
        Self {
            times: vec![("job = ?", job)],
            ..Self::default()
        }
    }

    /// Means the runs that worked of a circuit with a scheme and a batch.
    pub(crate) fn of_work(circuit: &str, scheme: &str, batch: u64) -> Self {
        let word = |text: &str| vec![text.to_owned()];
        Self {
            words: vec![
                ("circuit", word(circuit)),
                ("scheme", word(scheme)),
                ("state", word("ok")),
                ("kind", word("run")),
            ],
            times: vec![("batch = ?", super::whole(batch))],
            ..Self::default()
        }
    }

    /// Returns a condition of SQL, and what its question marks stand for.
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

/// Checks that so many numbers may be asked for.
pub(crate) fn checked(ids: Vec<i64>) -> Result<Vec<i64>, ApiError> {
    if ids.len() > MOST_IDS {
        return Err(ApiError::bad(format!("ids: at most {MOST_IDS} at a time")));
    }
    Ok(ids)
}

/// Splits at commas; one after a backslash belongs to the word.
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
    fn words_have_commas_between_and_maybe_within() {
        assert_eq!(split("tcp,quic"), ["tcp", "quic"]);
        assert_eq!(split(r"eu-us\,rtt=80,lan"), ["eu-us,rtt=80", "lan"]);
        assert_eq!(split(r"a\\b"), [r"a\b"]);
    }

    #[test]
    fn nothing_of_a_request_is_sql() {
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
    fn what_makes_no_sense_is_refused() {
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
        let many = vec!["1"; MOST_IDS + 1].join(",");
        assert!(Filter::parse(&mut Params::of([("ids", many.as_str())])).is_err());
    }
}
