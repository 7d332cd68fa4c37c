//! What the link is for, as far as that depends on what the listener says of itself.

use std::sync::Arc;

use crate::Workload;

/// Makes a workload of what the listener said.
pub(super) type Adapt = Arc<dyn Fn(&[u8]) -> Option<Workload> + Send + Sync>;

/// A workload, and how it changes by the listener's words.
#[derive(Clone)]
pub(super) struct Work {
    stated: Workload,
    adapt: Option<Adapt>,
}

impl Work {
    pub(super) fn of(stated: Workload) -> Self {
        Self {
            stated,
            adapt: None,
        }
    }

    pub(super) fn adapting(self, adapt: Adapt) -> Self {
        Self {
            adapt: Some(adapt),
            ..self
        }
    }

    pub(super) fn stated(&self) -> &Workload {
        &self.stated
    }

    /// Returns what the link is for, given the words; empty as long as nothing was heard.
    pub(super) fn by(&self, words: &[u8]) -> Workload {
        let adapted = match (&self.adapt, words) {
            (Some(adapt), words) if !words.is_empty() => adapt(words),
            _ => None,
        };
        adapted.unwrap_or(self.stated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::End;

    #[test]
    fn words_that_mean_nothing_leave_the_workload() {
        let bytes = |count| Workload::transfer(End::Listener, count).unwrap();
        let work = Work::of(bytes(10));
        assert_eq!(work.by(b"x"), bytes(10));
        let work = work.adapting(Arc::new(move |words| match words {
            [] => unreachable!(),
            [count] => Some(bytes(u64::from(*count))),
            _ => None,
        }));
        assert_eq!(work.by(b""), bytes(10));
        assert_eq!(work.by(&[77]), bytes(77));
        assert_eq!(work.by(&[77, 77]), bytes(10));
    }
}
