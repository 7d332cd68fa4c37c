//! `transpute completions` and `transpute man`: completion scripts and manual pages, made from the
//! definition of the command line.

use clap::{Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{failure::Failure, output, suggest, testbed::Testbed};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  transpute completions bash > ~/.local/share/bash-completion/completions/transpute")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute man run > transpute-run.1")]
pub(crate) struct ManArgs {
    /// The command to describe, such as `run` or `circuit eval` [default: all of transpute]
    #[arg(value_name = "COMMAND", value_hint = ValueHint::Other)]
    command: Vec<String>,
}

/// Prints a completion script for the chosen shell.
pub(crate) fn completions<T: Testbed>(
    args: &CompletionsArgs,
    mut root: Command,
) -> Result<(), Failure> {
    T::describe(&[])?;
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, "transpute", &mut script);
    output::print(|out| out.write_all(&script))
}

/// Prints the manual page of the named command in roff format.
pub(crate) fn man<T: Testbed>(args: &ManArgs, mut root: Command) -> Result<(), Failure> {
    T::describe(&args.command)?;
    // `build` sets the full names of subcommands, such as "transpute run", which manual pages show.
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
