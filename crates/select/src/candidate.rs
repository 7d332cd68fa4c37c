//! A transport that may be chosen, and how far its connection is.

use std::borrow::Cow;

use crate::{PathEstimate, SelectError, Spec, law::TIMEOUT_S, model::obstacle};

/// How late an answer may be because somebody was busy, beside a quarter of a round trip, in seconds.
const JITTER_S: f64 = 6e-3;

/// A transport that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which one.
    pub spec: Spec,
    /// What is left of its set-up.
    pub setup: Setup,
    /// How likely it does not come up: then its set-up was waited for in vain. From 0 to 1.
    pub doubt: f64,
    /// Why it cannot be used, if it cannot: it failed to come up, or the peer does not offer it.
    pub unavailable: Option<String>,
}

/// What is left of a set-up. Times are in seconds; what is no time counts as none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setup {
    /// All that the model predicts.
    Whole,
    /// Nothing: the link is up.
    Done,
    /// It was begun so long ago, and what is left is what the model predicts less that. What should be up by now comes soon, or
    /// when it is sent again, or never: the more it is late, the later.
    Begun(f64),
    /// It can begin in so long.
    In(f64),
    /// So much, whatever the model predicts.
    Left(f64),
}

impl Setup {
    /// Returns what is left, of so much in all, in seconds.
    pub(crate) fn left(self, whole: f64, rtt: f64) -> f64 {
        let time = |seconds: f64| {
            if (0.0..1e9).contains(&seconds) {
                seconds
            } else {
                0.0
            }
        };
        match self {
            Self::Whole => whole,
            Self::Done => 0.0,
            Self::Begun(ago) => {
                let due = whole - time(ago);
                // What is later than processors make it was lost, and comes when it is sent again.
                let late = -due;
                let again = match late > rtt / 4.0 + JITTER_S {
                    true => rtt + TIMEOUT_S - late,
                    false => 0.0,
                };
                due.max(rtt / 8.0).max(late / 2.0).max(again)
            }
            Self::In(seconds) => time(seconds) + whole,
            Self::Left(seconds) => time(seconds),
        }
    }
}

impl Candidate {
    /// A transport from its name and settings, which can be used and has to be set up.
    ///
    /// # Errors
    /// [`SelectError::Transport`].
    pub fn new(text: &str) -> Result<Self, SelectError> {
        Ok(Self::of(text.parse()?))
    }

    /// A transport that can be used and has to be set up.
    #[must_use]
    pub fn of(spec: Spec) -> Self {
        Self {
            spec,
            setup: Setup::Whole,
            doubt: 0.0,
            unavailable: None,
        }
    }

    /// Says what is left of the set-up.
    #[must_use]
    pub fn with_setup(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    /// Says how likely it does not come up.
    #[must_use]
    pub fn with_doubt(self, doubt: f64) -> Self {
        Self { doubt, ..self }
    }

    /// Returns the time to expect of a candidate that takes `seconds` if it comes up. If it does not, a round trip was waited in vain, and
    /// the best of those beyond doubt is taken.
    pub(crate) fn doubted(&self, seconds: f64, best_sure: f64, rtt: f64) -> f64 {
        let doubt = self.doubt.clamp(0.0, 1.0);
        // Not a product with something infinite.
        if doubt > 0.0 && best_sure.is_finite() {
            seconds + doubt * (rtt + best_sure - seconds)
        } else {
            seconds
        }
    }

    /// Says that it cannot be used, and why.
    #[must_use]
    pub fn without(self, reason: impl Into<String>) -> Self {
        Self {
            unavailable: Some(reason.into()),
            ..self
        }
    }

    /// Returns why it cannot be used on the path.
    pub(crate) fn obstacle(&self, path: &PathEstimate) -> Option<Cow<'_, str>> {
        match &self.unavailable {
            Some(reason) => Some(reason.as_str().into()),
            None => obstacle(&self.spec, path).map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_doubtful_must_be_worth_waiting_in_vain() {
        let rudp = Candidate::new("rudp").unwrap().with_doubt(0.9);
        // Instead of 10 s, and of 1 s.
        assert!(rudp.doubted(1.0, 10.0, 0.1) < 10.0);
        assert!(rudp.doubted(0.5, 1.0, 0.1) > 1.0);
        assert_eq!(rudp.doubted(0.5, f64::INFINITY, 0.1), 0.5);
    }

    #[test]
    fn what_should_be_up_is_expected_soon_and_ever_less_so() {
        let left = |setup: Setup| (setup.left(0.16, 0.08) * 1e3).round();
        assert_eq!((left(Setup::Whole), left(Setup::Done)), (160.0, 0.0));
        assert_eq!(left(Setup::In(0.04)), 200.0);
        assert_eq!(
            (left(Setup::Left(0.04)), left(Setup::Left(-1.0))),
            (40.0, 0.0)
        );
        let begun = |ago: f64| left(Setup::Begun(ago));
        assert_eq!([0.0, 0.1, 0.155].map(begun), [160.0, 60.0, 10.0]);
        assert_eq!([0.17, 0.18].map(begun), [10.0, 10.0]);
        // Then it was lost, and is sent again.
        assert_eq!([0.19, 0.26, 0.36].map(begun), [100.0, 50.0, 100.0]);
        for none in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!((begun(none), left(Setup::In(none))), (160.0, 160.0));
        }
    }
}
