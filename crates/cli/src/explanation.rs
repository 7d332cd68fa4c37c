//! A table of the predicted times of workloads over transports, with the chosen ones marked.

use std::fmt;

use serde::Serialize;

use transpute_select::{Candidate, Choice, Chooser, PathEstimate, Seconds, SelectError, Workload};

/// The choice and the predictions for several workloads on one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// The properties of the path.
    pub(crate) path: PathEstimate,
    /// The choice for each workload.
    pub(crate) rows: Vec<Row>,
}

/// The choice for one workload of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The name of the workload.
    pub(crate) name: String,
    /// The traffic and processor time of the workload.
    pub(crate) workload: Workload,
    /// The chosen transport, with the reason.
    pub(crate) choice: Choice,
}

impl Explanation {
    /// Chooses a transport for each workload.
    ///
    /// # Errors
    /// Returns the error of `chooser`, for example if no transport is usable.
    pub(crate) fn new(
        chooser: &dyn Chooser,
        path: &PathEstimate,
        workloads: impl IntoIterator<Item = (String, Workload)>,
        candidates: &[Candidate],
    ) -> Result<Self, SelectError> {
        let rows = workloads.into_iter().map(|(name, workload)| {
            Ok(Row {
                name,
                choice: chooser.choose(path, &workload, candidates)?,
                workload,
            })
        });
        Ok(Self {
            path: path.clone(),
            rows: rows.collect::<Result<_, SelectError>>()?,
        })
    }
}

/// Prints the path on one line, a table with one line per workload, and the reasons. The table
/// marks the chosen transport.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "path: {}\n", self.path)?;
        // The columns: one per transport that has a prediction, sorted by name.
        let mut columns: Vec<&str> = Vec::new();
        for ranked in self.rows.iter().flat_map(|row| row.choice.ranking()) {
            if !columns.contains(&ranked.transport.as_str()) {
                columns.push(ranked.transport.as_str());
            }
        }
        columns.sort_unstable();
        let first = (self.rows.iter())
            .map(|row| row.name.chars().count())
            .fold("circuit".len(), usize::max);
        write!(f, "{:first$}", "circuit")?;
        for column in &columns {
            write!(f, "  {column:>width$}", width = width(column))?;
        }
        writeln!(f, "  sure")?;
        for row in &self.rows {
            write!(f, "{:first$}", row.name)?;
            for column in &columns {
                let cell = (row.choice.ranking().iter())
                    .find(|ranked| ranked.transport.as_str() == *column)
                    .map_or("-".to_owned(), |ranked| {
                        let mark = if ranked.transport == *row.choice.winner() {
                            "*"
                        } else {
                            ""
                        };
                        format!("{mark}{}", Seconds(ranked.prediction.seconds))
                    });
                write!(f, "  {cell:>width$}", width = width(column))?;
            }
            writeln!(
                f,
                "  {:>4}",
                format!("{:.0} %", (row.choice.confidence * 100.0).min(99.0))
            )?;
        }
        writeln!(f)?;
        for row in &self.rows {
            let (low, high) = row.choice.prediction().interval();
            writeln!(
                f,
                "{}: {} ({} to {}); {}",
                row.name,
                row.choice.winner(),
                Seconds(low),
                Seconds(high),
                row.choice.reason
            )?;
        }
        if let Some(row) = self.rows.first() {
            for (transport, why) in &row.choice.excluded {
                writeln!(f, "not {transport}: {why}")?;
            }
        }
        Ok(())
    }
}

fn width(column: &str) -> usize {
    // The cell "*12.3 min" needs 9 characters.
    column.chars().count().max(9)
}

#[cfg(test)]
mod tests {
    use transpute_select::{Bandwidth, End, Rule};

    use super::*;

    #[test]
    fn an_explanation_is_a_table_with_the_winner_marked() {
        let mut path = PathEstimate::of_rtt(0.11).unwrap();
        path.up.known.rate = Some(Bandwidth::from_megabits_per_second(1000.0));
        let work = [("aes128", 211_000), ("mincut", 36_000_000)];
        let transfer = |bytes| Workload::transfer(End::Listener, bytes);
        let work = work.map(|(name, bytes)| (name.to_owned(), transfer(bytes)));
        let mut all = ["tcp", "rudp", "quic"].map(|name| Candidate::new(name).unwrap());
        all[2].unavailable = Some("refused by the peer".to_owned());
        let explanation = Explanation::new(&Rule, &path, work, &all).unwrap();
        let text = explanation.to_string();
        assert!(text.contains("path: rtt 110 ms, up 1000 Mbit/s"), "{text}");
        assert!(text.contains("not quic: refused by the peer"), "{text}");
        assert_eq!(text.matches('*').count(), 2, "{text}");
        let json = serde_json::to_value(&explanation).unwrap();
        assert_eq!(json["rows"][1]["choice"]["ranking"][0]["transport"], "rudp");
        assert!(json["rows"][0]["choice"]["ranking"][0]["parts"]["setup_s"].is_number());
    }
}
