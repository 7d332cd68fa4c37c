//! The limit on open files. Each connection takes a file descriptor, and many systems allow 1,024
//! by default.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Number of file descriptors reserved for purposes other than connections of companies.
const OTHER_DESCRIPTORS: u64 = 64;

/// Raises the limit on open files so that the process can have `links` connections.
///
/// # Errors
/// Returns [`Failure::Usage`] if the maximum that the system allows is too low.
pub(crate) fn raise_file_limit(links: usize) -> Result<(), Failure> {
    let needed = links as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let is_allowed = limit.maximum.is_none_or(|most| most >= needed);
    let wanted = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    if is_allowed && setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    let most = limit.maximum.map_or("more".into(), |most| most.to_string());
    Err(Failure::Usage(format!(
        "{links} connections need {needed} file descriptors, but the limit is {most}: see ulimit -Hn"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_up_to_the_hard_limit() {
        raise_file_limit(1).unwrap();
        let limit = getrlimit(Resource::Nofile).maximum;
        if let Some(most) = limit {
            let error = raise_file_limit(most as usize).unwrap_err();
            assert!(error.to_string().contains("file descriptors"), "{error}");
        }
    }
}
