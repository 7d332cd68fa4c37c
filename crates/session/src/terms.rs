//! What everything in a run refers to.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use transpute_circuit::{InputSplit, Program};

use crate::{Config, ConfigError, FrameKind, KnownPath, OtPlan, Planned, Progress, SessionError};

/// The generator of secrets: that of [`StdRng`](rand::rngs::StdRng), in a type that promises to wipe its
/// key and its output when dropped.
pub(crate) type SecretRng = chacha20::ChaCha12Rng;

/// What everything in a run refers to. Its scheme is the preferred one until the hellos agree, then the agreed one.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) config: Config,
    pub(crate) plan: OtPlan,
    /// Why this party wanted which plan, if by prediction.
    pub(crate) planned: Option<Planned>,
    pub(crate) program: Arc<Program>,
    pub(crate) split: InputSplit,
    /// The evaluator's input bits per evaluation.
    pub(crate) choices: usize,
    /// The same for the whole batch.
    pub(crate) total_choices: u64,
    pub(crate) progress: Progress,
    /// `None` before both openings are here.
    link: Option<RunLink>,
    /// Whether tables are made before the inputs are known.
    pub(crate) is_prepared: bool,
    /// Whether this garbler sends tables as far ahead as its own window before it has the peer's opening.
    pub(crate) is_eager: bool,
}

/// What both openings tell about a run.
#[derive(Clone, Copy)]
pub(crate) struct RunLink {
    /// What keys and hashes of the run are bound to besides the hellos.
    pub(crate) context: [u8; 32],
    /// The garbler's window, if it is larger than what the evaluator takes.
    pub(crate) excess_window: Option<u64>,
}

impl Terms {
    /// Checks the settings.
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

    /// Plans the transfers again for a path; says whether the plan changed. Transfers from the connection's pool do not depend on the path.
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

    /// Returns the garbler's window, if it is larger than what the evaluator takes.
    pub(crate) fn excess_window(&self) -> Option<u64> {
        self.link.and_then(|link| link.excess_window)
    }

    /// Says whether the labels of the garbler's inputs are sent.
    pub(crate) fn sends_garbler_labels(&self) -> bool {
        self.config.scheme.sends_garbler_labels() || self.is_prepared
    }

    /// Returns the session id of the run: a hash of the connection's id, the number of the run and both hellos.
    ///
    /// # Errors
    /// [`SessionError::Unexpected`] before both openings are here.
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

/// Returns the evaluator's input bits of a whole batch.
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
