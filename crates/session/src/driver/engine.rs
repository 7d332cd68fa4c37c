//! The computing thread.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    sync::mpsc::{self, error::TryRecvError},
    time::{Instant, timeout},
};

use super::outbox::Outbox;
use crate::{Frame, Milestone, Output, Progressed, Report, Role, Session, SessionError};

type Received = Result<Frame, SessionError>;

/// A session with what comes to it and goes from it.
pub(super) struct Engine<F> {
    session: Session,
    frames: mpsc::Receiver<Received>,
    out: Outbox,
    handle: Handle,
    started: Instant,
    milestones: [Option<Duration>; Milestone::COUNT],
    on_output: F,
}

impl<F: FnMut(Output)> Engine<F> {
    /// Must be called within the runtime of the tasks at the other ends.
    pub(super) fn new(
        session: Session,
        frames: mpsc::Receiver<Received>,
        out: Outbox,
        on_output: F,
    ) -> Self {
        Self {
            session,
            frames,
            out,
            handle: Handle::current(),
            started: Instant::now(),
            milestones: [None; Milestone::COUNT],
            on_output,
        }
    }

    /// Runs the session to its end. What is left to send is then on its way to the writer, which
    /// sends it and closes this direction when the engine is dropped.
    pub(super) fn run(&mut self) -> Result<Report, SessionError> {
        // The peer can do nothing before it has the opening.
        self.session.poll(&mut self.out.bytes, true)?;
        self.out.try_send();
        loop {
            let may_send = !self.out.has_enough();
            let progressed = self.session.poll(&mut self.out.bytes, may_send)?;
            self.note_progress();
            if self.out.has_enough() || progressed != Progressed::Worked {
                self.out.try_send();
            }
            match progressed {
                // Requests from the evaluator must not wait until the garbler has nothing else to
                // do; the evaluator takes the next chunk when it is done with the last.
                Progressed::Worked if self.session.role() == Role::Garbler => {
                    self.take_frame()?;
                }
                Progressed::Worked => {}
                // There may be more to send now that there is room.
                Progressed::Idle if !may_send && !self.out.has_enough() => {}
                Progressed::Idle => {
                    if !self.take_frame()? && !self.session.settle()? {
                        self.wait()?;
                    }
                }
                Progressed::Finished => {
                    if self.out.is_waiting() {
                        self.handle.block_on(self.out.send());
                    }
                    return Ok(self.report());
                }
            }
        }
    }

    /// Takes a frame that is here, if any is and it may be taken.
    fn take_frame(&mut self) -> Result<bool, SessionError> {
        if !self.session.wants_input() {
            return Ok(false);
        }
        match self.frames.try_recv() {
            Ok(frame) => {
                // Milliseconds of oblivious transfer may follow, which the peer need not wait for.
                self.out.try_send();
                self.session.handle(frame?).map(|()| true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(SessionError::Cancelled),
        }
    }

    /// Waits until a frame arrives or, where bytes are left to send, the network takes them.
    fn wait(&mut self) -> Result<(), SessionError> {
        let is_writing = self.out.is_waiting();
        let wants_input = self.session.wants_input() || !is_writing;
        let (frames, out) = (&mut self.frames, &mut self.out);
        let frame = self.handle.block_on(async {
            tokio::select! {
                biased;
                // A writer that is gone tells nothing: why is for the reader to find out.
                true = out.send(), if is_writing => None,
                frame = frames.recv(), if wants_input => Some(frame),
                else => Some(frames.recv().await),
            }
        });
        match frame {
            None => Ok(()),
            Some(Some(frame)) => self.session.handle(frame?),
            Some(None) => Err(SessionError::Cancelled),
        }
    }

    /// Tells the peer why, if it reads at all.
    pub(super) fn say_farewell(&mut self, error: &SessionError, patience: Duration) {
        let Some(frame) = Session::farewell(error) else {
            return;
        };
        self.out.bytes.extend_from_slice(&frame);
        let out = &mut self.out;
        let _ = (self.handle).block_on(async { timeout(patience, out.send()).await });
    }

    fn note_progress(&mut self) {
        let reached = self.session.channel().milestones();
        for (index, stamp) in self.milestones.iter_mut().enumerate() {
            if stamp.is_none() && reached >> index & 1 == 1 {
                let now = self.started.elapsed();
                *stamp = Some(now);
                self.session.progress().reach(index, now);
            }
        }
        while let Some(output) = self.session.next_output() {
            (self.on_output)(output);
        }
    }

    fn report(&self) -> Report {
        let channel = self.session.channel();
        let terms = self.session.terms();
        Report {
            traffic: channel.traffic,
            bytes_sent: channel.bytes_sent,
            bytes_received: channel.bytes_received,
            milestones: self.milestones,
            elapsed: self.started.elapsed(),
            flights: terms.plan.flights(),
            scheme: terms.config.scheme,
            ot: terms.plan,
            base_ot: terms.config.base_ot,
            planned: terms.planned,
        }
    }
}
