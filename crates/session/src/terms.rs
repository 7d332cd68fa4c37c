//! What everything in a run refers to.

use std::sync::Arc;

use transpute_circuit::{InputSplit, Program};

use crate::{
    Config, ConfigError, KnownPath, OtPlan, Planned, Progress, SessionError, hello::Hello,
};

/// The generator of secrets: that of [`StdRng`](rand::rngs::StdRng), in a type that promises to wipe its
/// key and its output when dropped.
pub(crate) type SecretRng = chacha20::ChaCha12Rng;

/// What everything in a session refers to. Its scheme is the preferred one until the hellos agree, then the agreed one.
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
    pub(crate) setting: Setting,
}

/// What a session is part of.
#[derive(Clone, Copy)]
pub(crate) enum Setting {
    /// It has the link for itself.
    Alone,
    /// It is a run of a standing connection.
    Run {
        /// What keys and hashes of this run are bound to besides the hellos; known when the peer's
        /// hello is here.
        context: Option<[u8; 32]>,
        /// Whether tables are made before the inputs are known.
        is_prepared: bool,
    },
}

impl Terms {
    /// Checks the settings.
    pub(crate) fn new(
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        plan: OtPlan,
        setting: Setting,
    ) -> Result<Self, SessionError> {
        config.check()?;
        Ok(Self {
            choices: split.evaluator_bits(),
            total_choices: total_choices(&split, &config)?,
            config,
            plan,
            planned: None,
            program,
            split,
            progress: Progress::default(),
            setting,
        })
    }

    /// Plans anew for a path; says whether the plan is another one now.
    pub(crate) fn replan(&mut self, path: KnownPath) -> Result<bool, SessionError> {
        if !matches!(self.setting, Setting::Alone) {
            return Ok(false);
        }
        self.config.path = Some(path);
        let (plan, planned) = self.config.plan(self.total_choices)?;
        self.planned = planned;
        Ok(std::mem::replace(&mut self.plan, plan) != plan)
    }

    /// Says whether tables are made before the inputs are known.
    pub(crate) fn is_prepared(&self) -> bool {
        matches!(
            self.setting,
            Setting::Run {
                is_prepared: true,
                ..
            }
        )
    }

    /// Binds keys and hashes to the connection and the number of the run.
    pub(crate) fn set_context(&mut self, known: [u8; 32]) {
        if let Setting::Run { context, .. } = &mut self.setting {
            *context = Some(known);
        }
    }

    /// Says whether the labels of the garbler's inputs are sent.
    pub(crate) fn sends_garbler_labels(&self) -> bool {
        self.config.scheme.sends_garbler_labels() || self.is_prepared()
    }

    /// Returns the session id.
    pub(crate) fn session_id(&self, garbler: &[u8], evaluator: &[u8]) -> [u8; 32] {
        match self.setting {
            Setting::Run {
                context: Some(context),
                ..
            } => Hello::run_id(&context, garbler, evaluator),
            _ => Hello::session_id(garbler, evaluator),
        }
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
