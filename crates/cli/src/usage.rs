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

/// Texts that follow the message in an error of clap. The JSON object of an error omits everything
/// from the first of them on.
const MESSAGE_ENDS: [&str; 2] = ["\n\nUsage:", "\n\nFor more information"];

/// Adds hints to an error of clap: the subcommands after an unknown one, and the option `--list` if
/// the name of a built-in circuit is missing. Returns other errors unchanged.
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

/// Returns the most deeply nested subcommand that is named in the arguments.
fn innermost<'a>(root: &'a Command, args: &[String]) -> &'a Command {
    (args.iter()).fold(root, |command, arg| {
        command.find_subcommand(arg).unwrap_or(command)
    })
}

/// Converts an error of clap to a [`Failure`], for the JSON object of the error. The message is put
/// on one line, without the usage text.
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
