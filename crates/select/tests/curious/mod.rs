//! A chooser by a fixed order, for tests of everything around choosing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use transpute_select::{
    Candidate, Choice, Chooser, Model, PathEstimate, SelectError, Settlement, Spec, Unknown,
    Workload,
};

/// Chooses by a fixed order, and counts how often it was asked whether it wants to know more.
pub(crate) struct Curious {
    order: Vec<&'static str>,
    /// Whether what is known of the path is enough.
    is_content: fn(&PathEstimate) -> bool,
    pub(crate) asked: AtomicUsize,
}

impl Curious {
    pub(crate) fn new(order: &[&'static str], is_content: fn(&PathEstimate) -> bool) -> Arc<Self> {
        Arc::new(Self {
            order: order.to_vec(),
            is_content,
            asked: AtomicUsize::new(0),
        })
    }
}

impl Chooser for Curious {
    fn name(&self) -> &str {
        "curious"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        let place = |spec: &Spec| self.order.iter().position(|name| *name == spec.as_str());
        Choice::of(
            self.name(),
            Model::shipped(),
            path,
            workload,
            candidates,
            |spec, _| place(spec).unwrap_or(usize::MAX) as f64,
            |ranking| format!("{} is the first in my order", ranking[0].transport),
        )
    }

    fn settlement(
        &self,
        path: &PathEstimate,
        _workload: &Workload,
        _candidates: &[Candidate],
    ) -> Result<Settlement, SelectError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Settlement {
            is_settled: (self.is_content)(path),
            worth_knowing: Unknown::Rate,
            ..Settlement::SETTLED
        })
    }
}
