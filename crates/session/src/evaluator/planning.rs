//! An evaluator that plans its oblivious transfers anew.

use rand::CryptoRng;
use transpute_circuit::Bits;

use super::EvaluatorCore;
use crate::{KnownPath, OtPlan, SessionError, ot::EvaluatorOt, transfers::Choices};

impl EvaluatorCore {
    /// Plans for a path that is known better now, if the hello has not left.
    pub(crate) fn set_path(
        &mut self,
        path: KnownPath,
        rng: &mut impl CryptoRng,
    ) -> Result<(), SessionError> {
        if self.setup.is_none() || !self.terms.replan(path)? {
            return Ok(());
        }
        let mut choices = Bits::new();
        // Inputs are asked for once.
        if let Some(fetched) = self.ot.take_choices() {
            self.choices = Choices::of_all(fetched, self.terms.config.batch);
        } else if self.terms.plan == OtPlan::Direct {
            choices = self.take_choices(self.terms.total_choices as usize)?;
        }
        let config = &self.terms.config;
        let (ot, setup) = EvaluatorOt::start(
            self.terms.plan,
            config.base_ot,
            config.scheme.is_free_xor(),
            choices,
            &self.hello.nonce,
            rng,
        );
        self.ot = ot;
        self.hello.set_plan(self.terms.plan);
        if !setup.is_empty() {
            self.hello.set_setup(&setup);
        }
        self.setup = Some(setup);
        Ok(())
    }
}
