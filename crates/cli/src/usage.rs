//! Usage errors, with hints that the parser's own messages lack.

use clap::{
    Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    failure::{Failure, FailureKind},
    suggest,
};

/// Marks of the end of the message in the parser's text. The rest is not part of the JSON object.
const MESSAGE_ENDS: [&str; 2] = ["\n\nUsage:", "\n\nFor more information"];

/// Adds to an error the list of subcommands, or the options that make a missing value unnecessary.
pub(crate) fn explain(mut error: Error, root: &Command, args: &[String]) -> Error {
    let command = innermost(root, args);
    let tips = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let names: Vec<_> = (command.get_subcommands())
                .filter(|subcommand| !subcommand.is_hide_set())
                .map(Command::get_name)
                .collect();
            let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidSubcommand)
            else {
                return error;
            };
            let mut tips = Vec::new();
            if error.get(ContextKind::SuggestedSubcommand).is_none() {
                let close = suggest::close(found, names.iter().copied());
                if !close.is_empty() {
                    tips.push(format!("did you mean '{}'?", close.join("' or '")));
                }
            }
            tips.push(format!("the subcommands are: {}", names.join(", ")));
            tips
        }
        ErrorKind::MissingRequiredArgument if command.get_name() == "generate" => {
            vec!["--list lists the built-in circuits".to_owned()]
        }
        _ => return error,
    };
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Returns the subcommand that the arguments lead to.
fn innermost<'a>(root: &'a Command, args: &[String]) -> &'a Command {
    (args.iter()).fold(root, |command, arg| {
        command.find_subcommand(arg).unwrap_or(command)
    })
}

/// Converts a usage error, for programs that read JSON.
pub(crate) fn failure(error: &Error) -> Failure {
    let text = error.render().to_string();
    let end = (MESSAGE_ENDS.iter())
        .filter_map(|end| text.find(end))
        .min()
        .unwrap_or(text.len());
    let message = text[..end].strip_prefix("error: ").unwrap_or(&text[..end]);
    let words: Vec<_> = message.split_whitespace().collect();
    Failure::new(FailureKind::Usage, words.join(" "))
}
