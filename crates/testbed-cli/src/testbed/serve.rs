//! `transpute testbed serve`: serves the web UI of the testbed.

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use transpute::auto::registry;
use transpute_cli::{Failure, FailureKind, interrupted, output};
use transpute_testbed::record::read_run_records;
use transpute_testbed_web::{ServeError, ServerConfig, Token, WebServer, import};

use super::common::own_program;

/// The default address.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7780";

#[derive(clap::Args)]
#[command(after_help = "\
Open the printed address in a browser. The page loads nothing from other hosts. Runs are stored in an SQLite file and remain after \
a restart.

An address that other machines can reach requires a token. It is random and printed with the address, or read from \
--token-file. Connections are not encrypted: over untrusted networks, listen on a loopback address and forward the port over SSH.

--allow-programs lets everyone with the token run any command as the user of this process.

Example:
  transpute testbed serve --listen 127.0.0.1:7800")]
pub(crate) struct Args {
    /// Address to listen on, with or without a port; with port 0 the system chooses one
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_ADDRESS, value_parser = parse_address)]
    listen: SocketAddr,
    /// Folder of the history and of uploaded circuits [default: transpute/testbed in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Require a token on a loopback address too
    #[arg(long)]
    token: bool,
    /// File with the token: 22 to 256 visible ASCII characters
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let users run commands on the emulated path: remote code execution by design
    #[arg(long)]
    allow_programs: bool,
    /// Import the records of a file from `transpute testbed run` into the history, then exit
    #[arg(long, value_name = "FILE")]
    import: Option<PathBuf>,
    /// Print only the address and errors
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn serve(args: Args) -> Result<(), Failure> {
    let data = match args.data {
        Some(folder) => folder,
        None => default_folder(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
            .ok_or_else(|| Failure::usage("--data is required: no home folder is known"))?,
    };
    if let Some(file) = &args.import {
        let records = read_run_records(file)
            .map_err(|error| Failure::new(FailureKind::File, error.to_string()).because(error))?;
        let count = import(&data, &records).map_err(|error| failure(error.into()))?;
        output::note(format!("{count} runs imported into {}", data.display()));
        return Ok(());
    }
    let wants_token = args.token || args.allow_programs || !args.listen.ip().is_loopback();
    let token = match (&args.token_file, wants_token) {
        (Some(file), _) => Some(
            Token::read(file)
                .map_err(|error| Failure::file(file, error.to_string()).because(error))?,
        ),
        (None, true) => Some(
            Token::random().map_err(|error| Failure::other(error.to_string()).because(error))?,
        ),
        (None, false) => None,
    };
    let mut config = ServerConfig::new(args.listen, data.clone(), own_program()?, registry());
    config.token = token.clone();
    config.allow_programs = args.allow_programs;
    transpute_cli::block_on(async {
        let server = WebServer::bind(config).await.map_err(failure)?;
        // Signal handlers are installed before the address is printed, so that a program that reads
        // the address can send a signal at once.
        let over = interrupted();
        tokio::pin!(over);
        let address = server.address();
        let fragment =
            (token.as_ref()).map_or(String::new(), |token| format!("#token={}", token.as_str()));
        if !args.quiet {
            if let Some(reason) = server.cannot_run() {
                output::note(format!("this machine cannot run jobs: {reason}"));
            }
            if !address.ip().is_loopback() {
                output::note(
                    "other machines can reach this address, and connections are not encrypted",
                );
            }
            if args.allow_programs {
                output::note("everyone with the token can run commands as this user");
            }
            output::note(format!("history in {}", data.display()));
        }
        output::note(format!("serving on http://{address}/{fragment}"));
        let mut code = None;
        server.run(async { code = Some(over.await) }).await;
        match code {
            Some(code) => Err(Failure::Silent(code)),
            None => Ok(()),
        }
    })
}

/// Returns the default folder of this user. Per the XDG Base Directory Specification, a relative
/// path is ignored.
fn default_folder(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute =
        |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(state).or_else(|| Some(absolute(home)?.join(".local/state")));
    Some(state?.join("transpute").join("testbed"))
}

/// Parses an address whose port may be omitted.
fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    let usual: SocketAddr = DEFAULT_ADDRESS
        .parse()
        .map_err(|_| "the default address is invalid")?;
    (text.parse())
        .or_else(|_| {
            text.parse()
                .map(|ip: IpAddr| SocketAddr::new(ip, usual.port()))
        })
        .map_err(|_| "expected an IP address with a port, such as 127.0.0.1:7780 or [::1]:7780")
}

fn failure(error: ServeError) -> Failure {
    let kind = match &error {
        ServeError::NeedsToken { .. } | ServeError::ProgramsNeedToken => FailureKind::Usage,
        ServeError::Store(_) => FailureKind::File,
        ServeError::Listen { .. } => FailureKind::Peer,
        _ => FailureKind::Other,
    };
    Failure::new(kind, error.to_string()).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_an_address_is_optional() {
        let address = |text| parse_address(text).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1").as_deref(), Ok("127.0.0.1:7780"));
        assert_eq!(address("[::1]:80").as_deref(), Ok("[::1]:80"));
        assert_eq!(address("::1").as_deref(), Ok("[::1]:7780"));
        assert!(address("localhost").is_err() && address("").is_err());
    }

    #[test]
    fn the_default_folder_follows_the_xdg_specification() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            default_folder(state.map(Into::into), home.map(Into::into))
        };
        let home = Some(PathBuf::from("/home/a/.local/state/transpute/testbed"));
        assert_eq!(folder(None, Some("/home/a")), home);
        assert_eq!(folder(Some("here"), Some("/home/a")), home);
        let state = Some(PathBuf::from("/s/transpute/testbed"));
        assert_eq!(folder(Some("/s"), Some("/home/a")), state);
        assert_eq!(folder(None, None), None);
    }
}
