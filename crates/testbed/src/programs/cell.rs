//! The cells of a plan: the combinations of its experiments, with their commands.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::Duration,
};

use transpute_netem::scenario::Scenario;

use super::{
    Plan, Setting,
    plan::{Axes, Experiment, REPETITION},
};

/// The form in which a [`Plan`] is run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// All combinations of the plan.
    Full,
    /// Fewer combinations: the values of the `quick` tables replace those of the experiments.
    Quick,
}

/// One combination of conditions and variables.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramCell {
    /// The name of the experiment.
    pub experiment: String,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The values of the variables, by name.
    pub variables: BTreeMap<String, Setting>,
    /// The commands of side A and side B, with placeholders.
    pub templates: [String; 2],
    /// Number of runs.
    pub repetitions: u32,
    /// Time limit of a run.
    pub time_limit: Duration,
}

impl Plan {
    /// Returns all combinations, in the order of the file. From one combination to the next, the
    /// alphabetically last variable changes first.
    #[must_use]
    pub fn cells(&self, form: Form) -> Vec<ProgramCell> {
        (self.experiments.iter())
            .flat_map(|experiment| experiment.cells(form))
            .collect()
    }
}

impl Experiment {
    fn cells(&self, form: Form) -> Vec<ProgramCell> {
        let axes = match form {
            Form::Full => &self.full,
            Form::Quick => &self.quick,
        };
        let mut combinations = vec![BTreeMap::new()];
        for (name, values) in &axes.variables {
            combinations = (combinations.iter())
                .flat_map(|combination| {
                    values.iter().map(|value| {
                        let mut longer = combination.clone();
                        longer.insert(name.clone(), value.clone());
                        longer
                    })
                })
                .collect();
        }
        let cell = |scenario: &Scenario, variables: &BTreeMap<_, _>| ProgramCell {
            experiment: self.name.clone(),
            scenario: scenario.clone(),
            variables: variables.clone(),
            templates: [self.a.clone(), self.b.clone()],
            repetitions: axes.repetitions,
            time_limit: axes.time_limit,
        };
        (axes.scenarios.iter())
            .flat_map(|scenario| combinations.iter().map(move |known| cell(scenario, known)))
            .collect()
    }
}

impl Axes {
    /// Returns the number of combinations.
    pub(super) fn cells(&self) -> usize {
        (self.variables.values())
            .map(Vec::len)
            .fold(self.scenarios.len(), usize::saturating_mul)
    }
}

impl fmt::Display for ProgramCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.experiment, self.scenario.name)?;
        for (index, (variable, value)) in self.variables.iter().enumerate() {
            let before = if index == 0 { '/' } else { ',' };
            write!(f, "{before}{variable}={value}")?;
        }
        Ok(())
    }
}

impl ProgramCell {
    /// Returns the name of the cell. It consists of experiment, scenario and variables, as in
    /// `width/eu-us,rtt=10/n=8,way=fast`.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// Returns whether `text` is the name of this cell or a prefix of it. A prefix must end before
    /// a `/` or a `,`. The name of the experiment is such a prefix.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        let name = self.name();
        let rest = name.strip_prefix(text);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ',']))
    }

    /// Returns the commands of side A and side B for a run, with all placeholders replaced.
    #[must_use]
    pub fn commands_of(&self, repetition: u32) -> [String; 2] {
        (self.templates)
            .each_ref()
            .map(|template| self.fill(template, repetition))
    }

    fn fill(&self, template: &str, repetition: u32) -> String {
        let mut command = String::with_capacity(template.len());
        for piece in pieces(template) {
            match piece {
                // Writing to a string cannot fail.
                Piece::Placeholder(REPETITION) => {
                    let _ = write!(command, "{repetition}");
                }
                Piece::Placeholder(name) => match self.variables.get(name) {
                    Some(value) => {
                        let _ = write!(command, "{value}");
                    }
                    // Every placeholder has a variable, because the plan was checked.
                    None => {
                        let _ = write!(command, "{{{name}}}");
                    }
                },
                Piece::Text(text) => command.push_str(text),
            }
        }
        command
    }
}

/// A part of a command: text or a placeholder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Returns the names of a command's placeholders, in order.
pub(super) fn placeholders(command: &str) -> impl Iterator<Item = &str> {
    pieces(command).filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Splits a command into text and placeholders. A placeholder is a name in braces. `${name}` is a
/// variable of the shell, and braces around other text belong to the shell or to JSON.
fn pieces(command: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = command;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (before, found) = match next_placeholder(rest) {
            Some((0, name)) => (name.len() + 2, Some(name)),
            Some((start, _)) => (start, None),
            None => (rest.len(), None),
        };
        let (piece, after) = rest.split_at(before);
        // The brace after a dollar sign is skipped too, because `${name}` is not a placeholder.
        rest = after;
        Some(found.map_or(Piece::Text(piece), Piece::Placeholder))
    })
}

/// Returns the position and the name of the first placeholder.
fn next_placeholder(text: &str) -> Option<(usize, &str)> {
    let is_in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (text.match_indices('{')).find_map(|(start, _)| {
        let inside = &text[start + 1..];
        let (name, rest) = inside.split_at(inside.find(|c| !is_in_name(c))?);
        let is_found = rest.starts_with('}')
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !text[..start].ends_with('$');
        is_found.then_some((start, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_what_is_the_shells() {
        let list = |command| pieces(command).collect::<Vec<_>>();
        use Piece::{Placeholder, Text};
        assert_eq!(
            list("x {n} ${n} {n}{way}"),
            [
                Text("x "),
                Placeholder("n"),
                Text(" ${n} "),
                Placeholder("n"),
                Placeholder("way")
            ]
        );
        for command in [
            "echo '{\"x\": 1}'",
            "{ true; }",
            "a{b,c}",
            "{N}",
            "{",
            "}{",
            "{}",
            "é{é}",
        ] {
            assert_eq!(list(command), [Text(command)]);
        }
        assert_eq!(list("{{n}}"), [Text("{"), Placeholder("n"), Text("}")]);
        assert!(list("").is_empty());
    }
}
