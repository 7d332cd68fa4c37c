//! `transpute completions` and `transpute man`: what shells and manual readers take from the command line's definition.

use clap::{Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{Cli, failure::Failure, output, suggest};

#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The command to describe, such as `run` or `circuit eval`; all of transpute without it
    #[arg(value_name = "COMMAND", value_hint = ValueHint::Other)]
    command: Vec<String>,
}

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "transpute", &mut script);
    output::print(|out| out.write_all(&script))
}

/// Prints a manual page.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut root = Cli::command();
    // Gives subcommands their full names.
    root.build();
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let names = command.get_subcommands().map(Command::get_name);
            let close = suggest::did_you_mean(name, names);
            Failure::usage(format!("COMMAND: there is no command {name:?}{close}"))
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| Failure::other("cannot write the manual page").because(error))?;
    output::print(|out| out.write_all(&page))
}
