//! Failures of commands, and their exit codes.

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use transpute::{
    Fingerprint, SessionError, TransportError,
    session::{AbortReason, Field},
    transport::{AddressError, ConnectError, HandshakeError, RegistryError, UnsupportedError},
};

/// The kinds of failure, by exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FailureKind {
    /// Any other failure.
    Other = 1,
    /// A flag or an input value is not valid.
    Usage = 2,
    /// A file is not valid.
    File = 3,
    /// The peer cannot be reached or authenticated.
    Peer = 4,
    /// The parties do not agree on what to compute or how.
    Disagreement = 5,
    /// The peer was lost, data was tampered with, or a check failed.
    Protocol = 6,
}

impl FailureKind {
    /// Returns the name of the kind in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Usage => "usage",
            Self::File => "file",
            Self::Peer => "peer",
            Self::Disagreement => "disagreement",
            Self::Protocol => "protocol",
        }
    }
}

/// The fingerprint of this process's identity. The message about a peer that rejects it shows it.
static OURS: Mutex<Option<Fingerprint>> = Mutex::new(None);

/// Records the fingerprint of this process's identity.
pub(crate) fn set_ours(fingerprint: Fingerprint) {
    *OURS.lock().unwrap_or_else(PoisonError::into_inner) = Some(fingerprint);
}

/// The failure of a command: its message and its exit code.
#[derive(Debug)]
pub enum Failure {
    /// A failure with a message.
    Told {
        /// The kind. It determines the exit code.
        kind: FailureKind,
        /// The message in one line, without the causes.
        message: String,
        /// The cause.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// A failure without a message: an interruption, or a closed standard output. The value is the
    /// exit code.
    Silent(u8),
}

impl Failure {
    /// Returns a failure without a cause.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Told {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Returns the failure of a run of the circuit `circuit`.
    pub(crate) fn of_run(error: transpute::Error, circuit: &str) -> Self {
        let transpute::Error::Session(session) = &error else {
            return error.into();
        };
        let mut cause = session;
        while let SessionError::Connection(error) = cause {
            cause = error;
        }
        match (cause, remedy(cause)) {
            (
                SessionError::Disagreement {
                    field: field @ Field::Circuit,
                    ours,
                    theirs,
                },
                Some(remedy),
            ) => Self::new(
                FailureKind::Disagreement,
                format!(
                    "the parties disagree on the {field}: {circuit} ({ours}) here, {theirs} at the \
                     peer; {remedy}"
                ),
            ),
            _ => error.into(),
        }
    }

    /// Returns a failure of kind [`FailureKind::Other`].
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Other, message)
    }

    /// Returns the failure of a wrong flag or input value.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Returns the failure of a file, whose path is part of the message.
    pub fn file(path: &Path, message: impl AsRef<str>) -> Self {
        let message = format!("{}: {}", path.display(), message.as_ref());
        Self::new(FailureKind::File, message)
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        if let Self::Told { source, .. } = &mut self {
            *source = Some(cause.into());
        }
        self
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Told { kind, .. } => *kind as u8,
            Self::Silent(code) => *code,
        }
    }

    /// Prints one line with the message and its causes.
    pub(crate) fn print(&self) {
        if let Some(line) = self.line() {
            // An error of writing to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "error: {line}");
        }
    }

    /// Returns the exit code, the name of the kind and the message. None for a silent failure.
    pub(crate) fn parts(&self) -> Option<(u8, &'static str, String)> {
        match self {
            Self::Told { kind, .. } => Some((*kind as u8, kind.name(), self.line()?)),
            Self::Silent(_) => None,
        }
    }

    fn line(&self) -> Option<String> {
        let Self::Told {
            message, source, ..
        } = self
        else {
            return None;
        };
        let mut line = message.clone();
        let mut is_refused = false;
        let mut cause = source.as_deref().map(|cause| cause as &dyn Error);
        while let Some(error) = cause {
            is_refused |= is_refusal(error);
            let text = error.to_string();
            // The text of many errors ends with their source.
            if !line.ends_with(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            cause = error.source();
        }
        let ours = *OURS.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(ours)) = (is_refused, ours) {
            line.push_str(&format!(", which is {ours}"));
        }
        Some(line.replace(['\n', '\r'], " "))
    }
}

/// Returns whether the peer rejects this side's fingerprint. The error may be wrapped in others, so
/// the error and all its sources are checked.
fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    let of_session = |error: &SessionError| match error {
        SessionError::Link(error) => is_refusal(&**error),
        SessionError::Connection(error) => is_refusal(&**error),
        _ => false,
    };
    if let Some(error) = error.downcast_ref::<TransportError>() {
        matches!(
            error.root(),
            TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })
        )
    } else if let Some(error) = error.downcast_ref::<SessionError>() {
        of_session(error)
    } else {
        match error.downcast_ref::<transpute::Error>() {
            Some(transpute::Error::Transport(error)) => is_refusal(error),
            Some(transpute::Error::Session(error)) => of_session(error),
            _ => false,
        }
    }
}

impl From<transpute::Error> for Failure {
    fn from(error: transpute::Error) -> Self {
        let kind = match &error {
            transpute::Error::Split(_) => {
                return Self::usage("--garbler-inputs").because(error);
            }
            transpute::Error::Unprotected(_) => FailureKind::Usage,
            transpute::Error::Transport(error) => before_session(error),
            transpute::Error::Session(error) => match remedy(error) {
                // The source is left out, because the message contains its text.
                Some(remedy) => return Self::new(in_session(error), format!("{error}; {remedy}")),
                None => in_session(error),
            },
            _ => FailureKind::Other,
        };
        Self::new(kind, error.to_string()).because(error)
    }
}

/// Returns a hint for the user about a disagreement of the parties.
fn remedy(error: &SessionError) -> Option<&'static str> {
    let field = match error {
        SessionError::Connection(error) => return remedy(error),
        SessionError::Disagreement { field, .. } | SessionError::RefusedByPeer(field) => field,
        _ => return None,
    };
    Some(match field {
        Field::Role => "one party must be --role garbler and the other --role evaluator",
        Field::Circuit => "compare the digests that `transpute circuit info` prints on both sides",
        Field::Runs => "give the same --repeat on both sides",
        Field::Version => "use the same version of transpute on both sides",
        _ => return None,
    })
}

fn before_session(error: &TransportError) -> FailureKind {
    match error.root() {
        TransportError::Registry(
            RegistryError::UnknownTransport { .. }
            | RegistryError::UnknownSetting { .. }
            | RegistryError::InvalidSetting { .. },
        )
        | TransportError::Unsupported(UnsupportedError::CongestionControl { .. })
        | TransportError::Address(AddressError::InvalidAddress { .. })
        | TransportError::Handshake(HandshakeError::NoPinnedPeer) => FailureKind::Usage,
        TransportError::Handshake(HandshakeError::NoCommonTransport { .. }) => {
            FailureKind::Disagreement
        }
        TransportError::Registry(RegistryError::DuplicateTransport { .. }) => FailureKind::Other,
        _ => FailureKind::Peer,
    }
}

fn in_session(error: &SessionError) -> FailureKind {
    match error {
        SessionError::Config(_) => FailureKind::Usage,
        SessionError::Input { .. } => FailureKind::File,
        SessionError::Disagreement { .. } | SessionError::RefusedByPeer(_) => {
            FailureKind::Disagreement
        }
        SessionError::Connection(error) => in_session(error),
        SessionError::NotTranspute | SessionError::PeerAborted(AbortReason::Busy) => {
            FailureKind::Peer
        }
        // The connecting side receives the listener's verdict at its first read.
        SessionError::Link(error) => match error.downcast_ref() {
            Some(TransportError::Handshake(HandshakeError::NoCommonTransport { .. })) => {
                FailureKind::Disagreement
            }
            Some(
                TransportError::Connect(ConnectError::Timeout { .. })
                | TransportError::Handshake(
                    HandshakeError::PeerRefusedUs { .. }
                    | HandshakeError::WrongPeer { .. }
                    | HandshakeError::SecurityMismatch { .. }
                    | HandshakeError::NotTranspute { .. }
                    | HandshakeError::Timeout { .. }
                    | HandshakeError::ClosedDuringHandshake,
                ),
            ) => FailureKind::Peer,
            _ => FailureKind::Protocol,
        },
        SessionError::Cancelled => FailureKind::Other,
        _ => FailureKind::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use transpute::transport::StreamError;

    use super::*;

    #[test]
    fn causes_follow_the_message_once() {
        let inner = io::Error::other("no such thing");
        let failure = Failure::usage("--input 0: no such thing").because(inner);
        assert_eq!(failure.line().unwrap(), "--input 0: no such thing");
        let failure = Failure::file(Path::new("a/b"), "cannot be read")
            .because(io::Error::other("it is\ngone"));
        assert_eq!(failure.line().unwrap(), "a/b: cannot be read: it is gone");
        assert_eq!(failure.code(), 3);
    }

    #[test]
    fn exit_codes_tell_refusal_from_failure() {
        let code = |error: SessionError| Failure::from(transpute::Error::from(error)).code();
        assert_eq!(code(SessionError::Closed), 6);
        let of_link = |error: TransportError| code(SessionError::Link(Box::new(error)));
        assert_eq!(of_link(TransportError::Stream(StreamError::Truncated)), 6);
        assert_eq!(
            of_link(TransportError::Handshake(
                HandshakeError::ClosedDuringHandshake
            )),
            4
        );
        let mismatch = || {
            TransportError::Handshake(HandshakeError::NoCommonTransport {
                ours: "udp".into(),
                theirs: "auto".into(),
            })
        };
        assert_eq!(of_link(mismatch()), 5);
        assert_eq!(Failure::from(transpute::Error::from(mismatch())).code(), 5);
        let unknown = TransportError::Registry(RegistryError::UnknownTransport {
            name: "smoke".into(),
            known: vec![],
        });
        assert_eq!(Failure::from(transpute::Error::from(unknown)).code(), 2);
    }
}
