//! The flags that say who the parties are.

use std::{path::PathBuf, sync::Arc};

use transpute::{Fingerprint, Party, transport::Security};

use crate::{failure::Failure, flags::IDENTITY, id};

#[derive(clap::Args)]
pub(crate) struct Protection {
    /// The key file that proves who this party is
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub(crate) identity: Option<PathBuf>,
    /// The fingerprint of the peer's key; may be repeated to accept one of several peers
    #[arg(long = "peer", value_name = "FINGERPRINT", help_heading = IDENTITY)]
    pub(crate) peers: Vec<Fingerprint>,
    /// Neither encrypt nor authenticate. Both sides must ask for it
    #[arg(long, conflicts_with_all = ["identity", "peers"], help_heading = IDENTITY)]
    pub(crate) plaintext: bool,
}

impl Protection {
    /// Says what is wrong with the flags that name the two parties.
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

    /// Gives a party this protection.
    pub(crate) fn protect(&self, party: Party) -> Result<Party, Failure> {
        self.check()?;
        Ok(match &self.identity {
            Some(file) => (self.peers.iter())
                .fold(party.identity(id::load(file)?), |party, &peer| {
                    party.peer(peer)
                }),
            // Checked above: without an identity plaintext was asked for.
            None => party.plaintext(),
        })
    }

    /// Returns one of these flags that was given.
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

    /// Returns the protection asked for.
    pub(crate) fn security(&self) -> Result<Security, Failure> {
        self.check()?;
        match &self.identity {
            Some(file) => Ok(Security::tls(Arc::new(id::load(file)?), self.peers.clone())),
            // Checked above: without an identity plaintext was asked for.
            None => Ok(Security::Plaintext),
        }
    }
}
