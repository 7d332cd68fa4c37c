//! Changes of the garbler's plan of oblivious transfers.

use rand::{CryptoRng, SeedableRng};

use super::GarblerCore;
use crate::{
    FrameKind, KnownPath, OtPlan, SecretRng, SessionError, ot::GarblerOt, pieces::whole_frame,
};

impl GarblerCore {
    /// Changes to the agreed plan, if this side has started with another one.
    pub(super) fn follow(&mut self, plan: OtPlan) {
        if plan != self.terms.plan {
            match plan {
                OtPlan::Extension(kind) if plan.begins_as(self.terms.plan) => {
                    self.ot.set_extension(kind);
                }
                _ => {
                    let setup = self.restart(plan, &mut SecretRng::from_seed(*self.late));
                    if !setup.is_empty() {
                        self.channel.queue(whole_frame(FrameKind::OtSetup, &setup));
                    }
                }
            }
        }
        self.terms.plan = plan;
    }

    /// Starts the transfers again, under `plan`. Returns the garbler's base-OT message.
    fn restart(&mut self, plan: OtPlan, rng: &mut impl CryptoRng) -> Vec<u8> {
        let base = self.terms.config.base_ot;
        let nonce = &self.hello.nonce;
        let (ot, setup) = GarblerOt::start(plan, base, self.garbler.delta(), nonce, rng);
        self.ot = ot;
        setup
    }

    /// Plans the transfers again for `path`, if the hello has not been sent.
    pub(crate) fn set_path(
        &mut self,
        path: KnownPath,
        rng: &mut impl CryptoRng,
    ) -> Result<(), SessionError> {
        if self.setup.is_none() || !self.terms.replan(path)? {
            return Ok(());
        }
        let (plan, begun) = (self.terms.plan, self.hello.has_begun(self.terms.plan));
        if let (true, OtPlan::Extension(kind)) = (begun, plan) {
            self.ot.set_extension(kind);
            let setup = self.setup.take().unwrap_or_default();
            self.hello.set_plan(plan);
            self.announce(setup);
        } else {
            self.hello.set_plan(plan);
            let setup = self.restart(plan, rng);
            self.announce(setup);
        }
        Ok(())
    }

    fn announce(&mut self, setup: Vec<u8>) {
        if !setup.is_empty() {
            self.hello.set_setup(&setup);
        }
        self.setup = Some(setup);
    }
}
