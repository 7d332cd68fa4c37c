//! Changes of the evaluator's garbling scheme.

use transpute_garble::Scheme;

use super::EvaluatorCore;
use crate::{FrameKind, MAX_PAYLOAD, SessionError, error::out_of_order, layout::Layout};

impl EvaluatorCore {
    /// Changes the preferred scheme, if the hello has not been sent.
    pub(crate) fn prefer_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        if self.setup.is_none() {
            return Ok(());
        }
        self.hello.prefer_scheme(scheme);
        self.set_scheme(scheme)
    }

    /// Changes the scheme, before any tables have arrived. Transfers do not change, because they
    /// are the same under all schemes with free XOR.
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

    /// Records a frame of tables that is ignored, because the garbler will start again.
    /// `len` is the length of its payload.
    pub(crate) fn skip(&mut self, len: u32) -> Result<(), SessionError> {
        self.channel.receive_skipped(len);
        self.ignore(FrameKind::Tables, len as usize)
    }

    /// Ignores a frame that a garbler sent before it knew that it must start again. Such a frame
    /// can be a base-OT message, or tables within the window.
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
