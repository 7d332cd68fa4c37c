//! Cells: the combinations of an experiment, and what their commands are.

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

/// Which form of a [`Plan`] is run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// All of it.
    Full,
    /// What its `quick` tables say, for a look.
    Quick,
}

/// One combination of conditions and variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The experiment.
    pub experiment: String,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// What the variables are.
    pub variables: BTreeMap<String, Setting>,
    /// The commands of side A and side B, with placeholders.
    pub templates: [String; 2],
    /// How often it is run.
    pub repetitions: u32,
    /// How long a run may take.
    pub time_limit: Duration,
}

impl Plan {
    /// Returns all combinations, in the order of the file; of the variables the last by name changes first.
    #[must_use]
    pub fn cells(&self, form: Form) -> Vec<Cell> {
        (self.experiments.iter())
            .flat_map(|experiment| experiment.cells(form))
            .collect()
    }
}

impl Experiment {
    fn cells(&self, form: Form) -> Vec<Cell> {
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
        let cell = |scenario: &Scenario, variables: &BTreeMap<_, _>| Cell {
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
    /// Returns how many combinations there are.
    pub(super) fn cells(&self) -> usize {
        (self.variables.values())
            .map(Vec::len)
            .fold(self.scenarios.len(), usize::saturating_mul)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.experiment, self.scenario.name)?;
        for (index, (variable, value)) in self.variables.iter().enumerate() {
            let before = if index == 0 { '/' } else { ',' };
            write!(f, "{before}{variable}={value}")?;
        }
        Ok(())
    }
}

impl Cell {
    /// Returns the name: experiment, scenario and variables, as in `width/eu-us,rtt=10/n=8,way=fast`.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// Returns whether `text` is its name, or the start of it up to a `/` or a `,`: an experiment alone, for
    /// instance.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        let name = self.name();
        let rest = name.strip_prefix(text);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ',']))
    }

    /// Returns the commands of side A and side B in a run.
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
                // Writing into a string cannot fail.
                Piece::Placeholder(REPETITION) => {
                    let _ = write!(command, "{repetition}");
                }
                Piece::Placeholder(name) => match self.variables.get(name) {
                    Some(value) => {
                        let _ = write!(command, "{value}");
                    }
                    // The plan was checked: there is none.
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

/// What a command is made of.
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

/// Takes a command apart. A placeholder is a name in braces; `${name}` is a variable of the shell, and braces
/// around anything else are the shell's, or JSON.
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
        // A dollar sign before the brace is never cut off from it: it keeps the name from being found.
        rest = after;
        Some(found.map_or(Piece::Text(piece), Piece::Placeholder))
    })
}

/// Finds the first placeholder: where its brace is, and its name.
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
