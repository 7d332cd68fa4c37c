//! The options for the identity of a party, its peers and encryption.

use std::{path::PathBuf, sync::Arc};

use transpute::{Fingerprint, Party, transport::Security};

use crate::{failure::Failure, flags::IDENTITY, id};

#[derive(clap::Args)]
pub(crate) struct Protection {
    /// The key file of this party's identity
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub(crate) identity: Option<PathBuf>,
    /// The fingerprint of the peer's key; may be repeated to accept one of several peers
    #[arg(long = "peer", value_name = "FINGERPRINT", help_heading = IDENTITY)]
    pub(crate) peers: Vec<Fingerprint>,
    /// Disable encryption and authentication. Both sides must use it
    #[arg(long, conflicts_with_all = ["identity", "peers"], help_heading = IDENTITY)]
    pub(crate) plaintext: bool,
}

impl Protection {
    /// Returns a failure if a required option is missing.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let advice = match (self.plaintext, &self.identity, self.peers.is_empty()) {
            (true, ..) | (false, Some(_), false) => return Ok(()),
            (false, None, true) => {
                "--identity FILE and --peer FINGERPRINT are needed: make a key with \
                 `transpute id new FILE` and exchange fingerprints with the peer, or give \
                 --plaintext on both sides to do without protection"
            }
            (false, None, false) => {
                "--identity FILE is needed: make a key with `transpute id new FILE`"
            }
            (false, Some(_), true) => {
                "--peer FINGERPRINT is needed: the peer sees its own with `transpute id show FILE`"
            }
        };
        Err(Failure::usage(advice))
    }

    /// Sets this protection in a party.
    pub(crate) fn protect(&self, party: Party) -> Result<Party, Failure> {
        self.check()?;
        Ok(match &self.identity {
            Some(file) => (self.peers.iter())
                .fold(party.identity(id::load(file)?), |party, &peer| {
                    party.peer(peer)
                }),
            // `check` ensures that `plaintext` is set if there is no identity.
            None => party.plaintext(),
        })
    }

    /// Returns the name of one of these options that was given. None if none was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match self {
            Self {
                plaintext: true, ..
            } => Some("--plaintext"),
            Self {
                identity: Some(_), ..
            } => Some("--identity"),
            Self { peers, .. } if !peers.is_empty() => Some("--peer"),
            _ => None,
        }
    }

    /// Returns the protection of the link.
    pub(crate) fn security(&self) -> Result<Security, Failure> {
        self.check()?;
        match &self.identity {
            Some(file) => Ok(Security::tls(Arc::new(id::load(file)?), self.peers.clone())),
            // `check` ensures that `plaintext` is set if there is no identity.
            None => Ok(Security::Plaintext),
        }
    }
}
