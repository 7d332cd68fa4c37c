//! Errors of finding a transport by its name and of reading its settings.

use thiserror::Error;

/// The error of adding a transport to a [`Registry`](crate::Registry), or of finding one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No transport of this name is registered.
    #[error("there is no transport named {name:?}; known are: {}", known.join(", "))]
    UnknownTransport {
        /// The given name.
        name: String,
        /// The registered names.
        known: Vec<String>,
    },
    /// A transport of this name is registered already.
    #[error("a transport named {name:?} is registered already")]
    DuplicateTransport {
        /// The name.
        name: String,
    },
    /// The transport has no setting of this name.
    #[error(
        "transport {transport} has no setting {key:?}; it has: {}",
        list_or_none(known)
    )]
    UnknownSetting {
        /// The transport's name.
        transport: &'static str,
        /// The given setting.
        key: String,
        /// The settings that the transport supports.
        known: Vec<&'static str>,
    },
    /// A setting after the transport's name is not of the expected form.
    #[error("setting {setting:?} of transport {transport}: {reason}")]
    InvalidSetting {
        /// The transport's name.
        transport: &'static str,
        /// The setting as given.
        setting: String,
        /// The reason why it is not valid.
        reason: String,
    },
}

fn list_or_none(names: &[&str]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
