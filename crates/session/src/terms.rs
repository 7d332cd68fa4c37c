//! The terms of a run: its settings and the values derived from them.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use transpute_circuit::{InputSplit, Program};

use crate::{Config, ConfigError, FrameKind, KnownPath, OtPlan, Planned, Progress, SessionError};

/// The random generator for secrets. It has the algorithm of [`StdRng`](rand::rngs::StdRng), but
/// wipes its key and its output on drop.
pub(crate) type SecretRng = chacha20::ChaCha12Rng;

/// The settings of a run and the values derived from them. The scheme in `config` is the preferred
/// one until the hellos agree, then the agreed one.
#[derive(Clone)]
pub(crate) struct RunTerms {
    pub(crate) config: Config,
    pub(crate) plan: OtPlan,
    /// This party's choice by predicted times. `None` if it has not predicted any.
    pub(crate) planned: Option<Planned>,
    pub(crate) program: Arc<Program>,
    pub(crate) split: InputSplit,
    /// Number of the evaluator's input bits per evaluation.
    pub(crate) choices: usize,
    /// Number of the evaluator's input bits in the batch.
    pub(crate) total_choices: u64,
    pub(crate) progress: Progress,
    /// The properties that both openings determine. `None` until both openings are known.
    link: Option<RunLink>,
    /// Whether the run is prepared: its tables are garbled before the inputs are known.
    pub(crate) is_prepared: bool,
    /// Whether this garbler uses its own window until it has the peer's opening.
    pub(crate) is_eager: bool,
}

/// The properties of a run that both openings determine.
#[derive(Clone, Copy)]
pub(crate) struct RunLink {
    /// The value to which keys and hashes of the run are bound, in addition to the hellos.
    pub(crate) context: [u8; 32],
    /// The garbler's window, if it is larger than the evaluator accepts.
    pub(crate) excess_window: Option<u64>,
}

impl RunTerms {
    /// Checks the settings, and derives the other values.
    pub(crate) fn new(
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        (plan, planned): (OtPlan, Option<Planned>),
        is_prepared: bool,
    ) -> Result<Self, SessionError> {
        config.check()?;
        config.backend()?;
        Ok(Self {
            choices: split.evaluator_bits(),
            total_choices: total_choices(&split, &config)?,
            config,
            plan,
            planned,
            program,
            split,
            progress: Progress::default(),
            link: None,
            is_prepared,
            is_eager: false,
        })
    }

    /// Plans the transfers again for a path, unless they are from the pool. Returns whether the
    /// plan changed.
    pub(crate) fn replan(&mut self, path: KnownPath) -> Result<bool, SessionError> {
        if self.plan == OtPlan::Pool {
            return Ok(false);
        }
        self.config.path = Some(path);
        let (plan, planned) = self.config.plan(self.total_choices)?;
        self.planned = planned;
        Ok(std::mem::replace(&mut self.plan, plan) != plan)
    }

    /// Binds keys and hashes to the connection and the number of the run.
    pub(crate) fn set_link(&mut self, link: RunLink) {
        self.link = Some(link);
    }

    /// Returns the garbler's window, if it is larger than the evaluator accepts.
    pub(crate) fn excess_window(&self) -> Option<u64> {
        self.link.and_then(|link| link.excess_window)
    }

    /// Returns whether the labels of the garbler's inputs are sent.
    pub(crate) fn sends_garbler_labels(&self) -> bool {
        self.config.scheme.sends_garbler_labels() || self.is_prepared
    }

    /// Returns the session id of the run: a hash of the connection's id, the number of the run and
    /// both hellos.
    ///
    /// # Errors
    /// Returns [`SessionError::Unexpected`] if the peer's opening has not arrived.
    pub(crate) fn session_id(
        &self,
        garbler: &[u8],
        evaluator: &[u8],
    ) -> Result<[u8; 32], SessionError> {
        let Some(link) = &self.link else {
            return Err(SessionError::Unexpected {
                kind: FrameKind::Hello,
                problem: "the connection is not open",
            });
        };
        Ok(Sha256::new()
            .chain_update(b"transpute 1 run id")
            .chain_update(link.context)
            .chain_update(garbler)
            .chain_update(evaluator)
            .finalize()
            .into())
    }
}

/// Returns the number of the evaluator's input bits of a whole batch.
pub(crate) fn total_choices(split: &InputSplit, config: &Config) -> Result<u64, ConfigError> {
    let all = split.widths().iter().map(|&width| u64::from(width)).sum();
    config
        .batch
        .checked_mul(all)
        .filter(|bits| *bits < 1 << 56)
        .map(|_| config.batch * split.evaluator_bits() as u64)
        .ok_or(ConfigError::TooLarge {
            batch: config.batch,
        })
}
