//! Changes of the evaluator's garbling scheme.

use transpute_garble::Scheme;

use super::EvaluatorCore;
use crate::{
    FrameKind, MAX_PAYLOAD, SessionError, error::out_of_order, layout::Layout, transcript::Skipped,
};

impl EvaluatorCore {
    /// Prefers another scheme, if the hello has not been sent.
    pub(crate) fn prefer_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        if self.setup.is_none() {
            return Ok(());
        }
        self.hello.prefer_scheme(scheme);
        self.set_scheme(scheme)
    }

    /// Expects tables of another scheme, before any has arrived. Transfers are the same under all
    /// schemes with free XOR.
    pub(super) fn set_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        if scheme == self.terms.config.scheme {
            return Ok(());
        }
        self.terms.config.scheme = scheme;
        self.layout = Layout::new(&self.terms)?;
        self.lead = self.lead.renewed(self.layout.clone());
        (self.terms.progress).set_total(self.layout.total_tables());
        Ok(())
    }

    /// Waits for the garbler to start again, because it has started with a scheme or a window that
    /// this side does not allow.
    pub(super) fn await_second_hello(&mut self) -> Result<(), SessionError> {
        if self.ignored.is_some() {
            return Err(out_of_order(FrameKind::Hello));
        }
        self.ignored = Some(0);
        Ok(())
    }

    /// Records tables of such a garbler that were not kept.
    pub(crate) fn skip(&mut self, skipped: &Skipped) -> Result<(), SessionError> {
        self.channel.receive_skipped(skipped);
        self.ignore(FrameKind::Tables, skipped.len as usize)
    }

    /// Ignores frames that such a garbler sent before it knew this side's hello: a base-OT message,
    /// and tables within the window.
    pub(super) fn ignore(&mut self, kind: FrameKind, len: usize) -> Result<(), SessionError> {
        let ahead = self.terms.excess_window().unwrap_or(self.lead.limit());
        let limit = ahead.saturating_add(2 * MAX_PAYLOAD as u64);
        match (&mut self.ignored, kind) {
            (Some(bytes), FrameKind::OtSetup | FrameKind::Tables) => {
                *bytes += len as u64;
                if *bytes <= limit {
                    return Ok(());
                }
                Err(SessionError::Unexpected {
                    kind,
                    problem: "it runs further ahead of the labels than agreed",
                })
            }
            _ => Err(out_of_order(kind)),
        }
    }
}
