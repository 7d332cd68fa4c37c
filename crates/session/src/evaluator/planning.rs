//! Changes of the evaluator's plan of oblivious transfers.

use rand::{CryptoRng, SeedableRng};
use transpute_circuit::Bits;

use super::EvaluatorCore;
use crate::{
    FrameKind, KnownPath, OtPlan, SecretRng, SessionError, ot::EvaluatorOt, pieces::whole_frame,
};

impl EvaluatorCore {
    /// Plans the transfers again for `path`, if the hello has not been sent.
    pub(crate) fn set_path(
        &mut self,
        path: KnownPath,
        rng: &mut impl CryptoRng,
    ) -> Result<(), SessionError> {
        if self.setup.is_none() || !self.terms.replan(path)? {
            return Ok(());
        }
        let setup = self.restart(self.terms.plan, rng)?;
        self.hello.set_plan(self.terms.plan);
        if !setup.is_empty() {
            self.hello.set_setup(&setup);
        }
        self.setup = Some(setup);
        Ok(())
    }

    /// Changes to the agreed plan, if this side has started with another one.
    pub(super) fn follow(&mut self, plan: OtPlan) -> Result<(), SessionError> {
        match plan {
            _ if plan == self.terms.plan => {}
            OtPlan::Extension(kind) if plan.begins_as(self.terms.plan) => {
                self.ot.set_extension(kind);
            }
            _ => {
                let mut rng = SecretRng::from_seed(*self.late);
                let setup = self.restart(plan, &mut rng)?;
                if !setup.is_empty() {
                    self.channel.queue(whole_frame(FrameKind::OtSetup, &setup));
                }
            }
        }
        self.terms.plan = plan;
        Ok(())
    }

    /// Starts the transfers again, under `plan`. Returns the evaluator's base-OT message.
    fn restart(&mut self, plan: OtPlan, rng: &mut impl CryptoRng) -> Result<Vec<u8>, SessionError> {
        // Inputs can be fetched only once, so fetched choices are kept.
        if let Some(fetched) = self.ot.take_choices() {
            self.choices.put_back(&fetched);
        }
        self.asked = 0;
        let choices = match plan {
            OtPlan::Direct => self.take_choices(self.terms.total_choices as usize)?,
            _ => Bits::new(),
        };
        let config = &self.terms.config;
        let (ot, setup) = EvaluatorOt::start(
            plan,
            config.base_ot,
            config.scheme.is_free_xor(),
            choices,
            &self.hello.nonce,
            rng,
        );
        self.ot = ot;
        Ok(setup)
    }
}
