//! Room for a thousand links: each takes a file descriptor, and many systems give a program 1,024 unless it asks for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// What a program has open besides links of companies.
const OTHERS: u64 = 64;

/// Asks the system for room for so many links.
///
/// # Errors
/// [`Failure::Usage`], which says what it allows, if that is not enough.
pub(crate) fn make_room(links: usize) -> Result<(), Failure> {
    let needed = links as u64 + OTHERS;
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
        "{links} links need {needed} file descriptors and the system allows {most}: see ulimit -Hn"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_enough_and_what_nobody_has_is_refused() {
        make_room(1).unwrap();
        let limit = getrlimit(Resource::Nofile).maximum;
        if let Some(most) = limit {
            let error = make_room(most as usize).unwrap_err();
            assert!(error.to_string().contains("file descriptors"), "{error}");
        }
    }
}
