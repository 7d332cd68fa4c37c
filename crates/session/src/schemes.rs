//! The garbling schemes that the parties allow, and their agreement.

use std::fmt;

use transpute_garble::Scheme;

/// A set of garbling schemes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SchemeSet(u8);

impl SchemeSet {
    /// No scheme.
    pub const EMPTY: Self = Self(0);

    /// The schemes for an automatic choice: half gates and three halves, which have a fresh hash
    /// key for each run. `fixed-key` is excluded, because its security decreases with the total
    /// number of gates of all runs. `prf` is excluded, because it is never the fastest.
    pub const RECOMMENDED: Self = Self::of(&[Scheme::HalfGates, Scheme::ThreeHalves]);

    /// Returns the set of these schemes.
    #[must_use]
    pub const fn of(schemes: &[Scheme]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < schemes.len() {
            set |= 1 << schemes[index].code();
            index += 1;
        }
        Self(set)
    }

    /// Returns the set with one more scheme.
    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme.code())
    }

    /// Returns the schemes in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set contains a scheme.
    #[must_use]
    pub const fn contains(self, scheme: Scheme) -> bool {
        self.0 >> scheme.code() & 1 == 1
    }

    /// Returns the schemes in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = Scheme> {
        (Scheme::ALL.into_iter()).filter(move |scheme| self.contains(*scheme))
    }

    /// Returns the number of schemes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the encoding of the set in messages. Bit n is 1 if the set contains the scheme with
    /// code n.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// Decodes a set. `None` if a set bit is not the code of a scheme.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        (code & !Self::of(&Scheme::ALL).0 == 0).then_some(Self(code))
    }
}

/// Writes the names of the schemes, separated by commas.
impl fmt::Display for SchemeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|scheme| scheme.to_string()).collect();
        f.pad(&names.join(","))
    }
}

/// The garbling schemes in a hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SchemeTerms {
    /// The preferred scheme. It is in `allowed`.
    pub(crate) preferred: Scheme,
    pub(crate) allowed: SchemeSet,
    /// Whether the party's preference has priority, because the party knows the path.
    pub(crate) decides: bool,
}

impl SchemeTerms {
    /// Returns the scheme of a run with these two parties. `None` if they allow no common scheme.
    ///
    /// The result is the preferred scheme of the party with `decides`. If both or neither have it,
    /// the result is the garbler's preferred scheme. If the other party does not allow this scheme,
    /// the result is the first common scheme in the order of codes. So a party never uses a scheme
    /// that it does not allow.
    pub(crate) fn agree(garbler: &Self, evaluator: &Self) -> Option<Scheme> {
        let common = garbler.allowed.common(evaluator.allowed);
        let decider = match evaluator.decides && !garbler.decides {
            true => evaluator,
            false => garbler,
        };
        match common.contains(decider.preferred) {
            true => Some(decider.preferred),
            false => common.iter().next(),
        }
    }

    /// Returns whether a garbler with these terms sends tables of its preferred scheme before it
    /// has the peer's hello.
    pub(crate) fn begins_at_once(&self, is_prepared: bool) -> bool {
        self.allowed.len() == 1 || (self.decides && !is_prepared)
    }
}

impl fmt::Display for SchemeTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.allowed.len() {
            1 => self.preferred.fmt(f),
            _ => write!(f, "auto:{}", self.allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all non-empty sets of schemes.
    fn sets() -> impl Iterator<Item = SchemeSet> {
        (1..16).map(|code| SchemeSet::from_code(code).unwrap())
    }

    #[test]
    fn sets_are_read_back() {
        for set in sets() {
            assert_eq!(SchemeSet::from_code(set.code()), Some(set));
            assert_eq!(set.iter().count(), set.len());
            assert_eq!(SchemeSet::of(&set.iter().collect::<Vec<_>>()), set);
        }
        assert_eq!(SchemeSet::from_code(0x10), None);
        assert_eq!(
            SchemeSet::RECOMMENDED.to_string(),
            "half-gates,three-halves"
        );
        assert!(SchemeSet::EMPTY.is_empty());
    }

    #[test]
    fn every_pair_agrees_on_what_both_allow_or_on_nothing() {
        for (ours, theirs) in sets().flat_map(|ours| sets().map(move |theirs| (ours, theirs))) {
            let common = ours.common(theirs);
            for (first, second) in
                (ours.iter()).flat_map(|first| theirs.iter().map(move |second| (first, second)))
            {
                for flags in 0..4 {
                    let garbler = SchemeTerms {
                        preferred: first,
                        allowed: ours,
                        decides: flags & 1 != 0,
                    };
                    let evaluator = SchemeTerms {
                        preferred: second,
                        allowed: theirs,
                        decides: flags & 2 != 0,
                    };
                    let agreed = SchemeTerms::agree(&garbler, &evaluator);
                    assert_eq!(agreed.is_some(), !common.is_empty());
                    let decider = if flags == 2 { second } else { first };
                    match agreed {
                        Some(scheme) if common.contains(decider) => assert_eq!(scheme, decider),
                        Some(scheme) => assert!(common.contains(scheme)),
                        None => {}
                    }
                }
            }
        }
    }
}
