//! Which transport for which circuit, as a table.

use std::fmt;

use serde::Serialize;

use crate::{
    Candidate, Choice, Chooser, PathEstimate, SelectError, Workload, choose::sureness,
    path::Seconds,
};

/// What would be chosen on a path for several workloads, and what was predicted of all candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What is known of the path.
    pub path: PathEstimate,
    /// The workloads.
    pub rows: Vec<Row>,
}

/// One workload of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the workload is called.
    pub name: String,
    /// What it sends and computes.
    pub workload: Workload,
    /// Which transport, and why.
    pub choice: Choice,
}

impl Explanation {
    /// Chooses for each of the workloads.
    ///
    /// # Errors
    /// Those of the chooser.
    pub fn new(
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

/// The path on a line, a table with a line for each workload and the winner marked, and why.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "path: {}\n", self.path)?;
        // Columns in the order in which transports come up.
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
            writeln!(f, "  {:>4}", sureness(row.choice.confidence))?;
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
    // "*12.3 min" and the like.
    column.chars().count().max(9)
}
