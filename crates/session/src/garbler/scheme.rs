//! Changes of the garbler's scheme.

use std::{collections::VecDeque, iter, num::NonZeroUsize};

use rand::SeedableRng;
use transpute_circuit::Bits;
use transpute_garble::{Garbler, Params, Scheme, Seed};
use zeroize::Zeroizing;

use super::GarblerCore;
use crate::{
    InputError, Inputs, SecretRng, SessionError,
    channel::Channel,
    helpers::{GarblingThreads, Spawner},
    layout::Layout,
    terms::RunTerms,
};

/// The garbler, and threads that garble instead of it, if any.
pub(super) type Garblers = (Garbler, Option<GarblingThreads>);

/// State that a garbler keeps until the hellos agree, if it may have to start again.
pub(super) struct Undecided {
    /// The seed of all labels. Another scheme derives the same input labels from it.
    seed: Zeroizing<[u8; 32]>,
    /// This party's fetched input bits, for tables of another scheme.
    fetched: VecDeque<Bits>,
}

impl Undecided {
    /// Returns the state to keep. `None` if this garbler cannot have to start again.
    pub(super) fn new(terms: &RunTerms, seed: &Zeroizing<[u8; 32]>) -> Option<Self> {
        let may_begin_again = terms.is_eager || terms.config.allowed_schemes().len() > 1;
        may_begin_again.then(|| Self {
            seed: seed.clone(),
            fetched: VecDeque::new(),
        })
    }

    pub(super) fn keep(&mut self, bits: &[Bits]) {
        self.fetched.extend(bits.iter().cloned());
    }
}

/// Creates the garblers, all with the same seed, for the scheme of `params`.
pub(super) fn garblers(
    terms: &RunTerms,
    params: Params,
    seed: &Zeroizing<[u8; 32]>,
    spawner: Option<Spawner>,
) -> Result<Garblers, SessionError> {
    let config = &terms.config;
    let backend = config.backend()?;
    let garbler = || {
        let garbler = Garbler::new(
            terms.program.clone(),
            &terms.split,
            params,
            Seed::from_bytes(**seed),
            backend,
        )?;
        Ok::<_, SessionError>(if terms.is_prepared {
            garbler.sending_garbler_labels()
        } else {
            garbler
        })
    };
    let threads = config.threads;
    let others = (threads > NonZeroUsize::MIN)
        .then(|| {
            let garblers = iter::repeat_with(garbler).take(threads.get());
            GarblingThreads::start(
                garblers.collect::<Result<_, _>>()?,
                config.chunk_len as usize,
                spawner,
            )
        })
        .transpose()?;
    Ok((garbler()?, others))
}

impl GarblerCore {
    /// Changes the preferred scheme, if the hello has not been sent.
    pub(crate) fn prefer_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        if self.setup.is_none() {
            return Ok(());
        }
        self.hello.prefer_scheme(scheme);
        self.set_scheme(scheme)
    }

    /// Returns whether tables wait for the peer's hello, because it may decide on the scheme.
    pub(super) fn awaits_scheme(&self) -> bool {
        self.agreed.is_none() && !self.hello.begins_at_once()
    }

    /// Adopts the agreed scheme. If `begins_again` is set and the hello was sent, the garbler
    /// starts again, and this function returns true. `theirs` is the peer's encoded hello.
    pub(super) fn follow_scheme(
        &mut self,
        scheme: Scheme,
        begins_again: bool,
        theirs: &[u8],
    ) -> Result<bool, SessionError> {
        if begins_again && self.setup.is_none() {
            self.begin_again(scheme, theirs)?;
            return Ok(true);
        }
        if begins_again {
            // The hello has not been sent yet. It now allows only the agreed scheme, so the
            // evaluator does not wait for a second hello.
            self.hello.settle_scheme(scheme);
        }
        if scheme != self.terms.config.scheme {
            self.set_scheme(scheme)?;
        }
        self.undecided = None;
        Ok(false)
    }

    /// Garbles under another scheme, before any table was made. The labels of inputs and delta stay
    /// the same, because all schemes with free XOR derive them from the seed alone.
    fn set_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        let Some(undecided) = &self.undecided else {
            return Ok(());
        };
        self.terms.config.scheme = scheme;
        let params = self.hello.params(&self.terms.config);
        (self.garbler, self.others) = garblers(&self.terms, params, &undecided.seed, self.spawner)?;
        self.layout = Layout::new(&self.terms)?;
        self.lead = self.lead.renewed(self.layout.clone());
        (self.terms.progress).set_total(self.layout.total_tables());
        Ok(())
    }

    /// Sends a second hello and garbles with fresh secrets. No secret may be reused: two garblings
    /// with the same labels or the same start value weaken each other.
    fn begin_again(&mut self, scheme: Scheme, theirs: &[u8]) -> Result<(), SessionError> {
        let mut rng = SecretRng::from_seed(*self.late);
        let mut hello = self.hello.clone();
        hello.renew(scheme, &mut rng);
        let mut terms = self.terms.clone();
        terms.config.scheme = scheme;
        terms.config.other_schemes = crate::SchemeSet::EMPTY;
        terms.is_eager = false;
        let fetched = self.undecided.take().map(|undecided| undecided.fetched);
        let inputs: Option<Box<dyn Inputs>> = self.inputs.take().map(|rest| {
            let fetched = fetched.unwrap_or_default();
            Box::new(ResumedInputs { fetched, rest }) as Box<dyn Inputs>
        });
        let channel = std::mem::replace(&mut self.channel, Channel::new());
        let mut again = Self::new(terms, channel, hello, inputs, self.spawner, &mut rng)?;
        again.lead = self.lead.renewed(again.layout.clone());
        *self = again;
        self.handle_hello(theirs)
    }
}

/// Inputs that start with bits that were already fetched.
struct ResumedInputs {
    fetched: VecDeque<Bits>,
    rest: Box<dyn Inputs>,
}

impl Inputs for ResumedInputs {
    fn bits(&mut self, instance: u64) -> Result<Bits, InputError> {
        match self.fetched.pop_front() {
            Some(bits) => Ok(bits),
            None => self.rest.bits(instance),
        }
    }
}
