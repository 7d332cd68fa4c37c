//! The settings of a party that concern the two-party protocol.

use std::sync::Mutex;

use transpute_driver::DriverOptions;
use transpute_garble::Scheme;
use transpute_ot::BaseOt;
use transpute_session::{Config, ConnectionConfig, OtChoice, OutputPolicy, Progress, SchemeSet};

use super::Party;

/// # Protocol
impl Party {
    /// Sets which input values of the circuit belong to the garbler, by their numbers from 0.
    /// Default: only value 0.
    #[must_use]
    pub fn garbler_inputs(mut self, values: impl Into<Vec<usize>>) -> Self {
        self.garbler_inputs = Some(values.into());
        self
    }

    /// Sets the garbling scheme and allows no other. Default: [`Scheme::HalfGates`].
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.config.scheme = scheme;
        self.config.other_schemes = SchemeSet::EMPTY;
        self
    }

    /// Allows several garbling schemes, such as [`SchemeSet::RECOMMENDED`]. The party that connects
    /// chooses a scheme that both parties allow, by the path that it measured. An empty set changes
    /// nothing.
    #[must_use]
    pub fn schemes(mut self, allowed: SchemeSet) -> Self {
        if let Some(first) = allowed.iter().next() {
            self.config.scheme = first;
            self.config.other_schemes = allowed;
        }
        self
    }

    /// Sets which parties learn the outputs. Default: the evaluator.
    #[must_use]
    pub fn output_to(mut self, policy: OutputPolicy) -> Self {
        self.config.output = policy;
        self
    }

    /// Sets the kind of oblivious transfer for the labels of the evaluator's inputs. Default:
    /// [`OtChoice::Auto`].
    #[must_use]
    pub fn oblivious_transfer(mut self, choice: OtChoice) -> Self {
        self.config.ot = choice;
        self
    }

    /// Sets the public-key scheme of base oblivious transfer, for single runs and for connections.
    /// Both parties must set the same scheme. Default: Ristretto255.
    #[must_use]
    pub fn base_ot(mut self, base: BaseOt) -> Self {
        self.config.base_ot = base;
        self.connection.base_ot = base;
        self
    }

    /// Replaces all settings of a run. This overwrites earlier calls of [`scheme`](Self::scheme),
    /// [`output_to`](Self::output_to) and the other methods that change the [`Config`].
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Calls `watch` once, when a single run starts, with the live counters of the run.
    #[must_use]
    pub fn on_progress(mut self, watch: impl FnOnce(Progress) + Send + 'static) -> Self {
        self.on_progress = Mutex::new(Some(Box::new(watch)));
        self
    }
}

/// # Connections and timeouts
impl Party {
    /// Sets the limits of a connection for many runs, and its pool of random oblivious transfers.
    /// They have an effect in [`Connecting::open`](crate::Connecting::open),
    /// [`Listening::open`](crate::Listening::open) and
    /// [`Listening::serve`](crate::Listening::serve).
    #[must_use]
    pub fn connection_config(mut self, config: ConnectionConfig) -> Self {
        self.connection = config;
        self
    }

    /// Sets the expected number of runs of a connection, and how many of them are active at a time.
    /// The choice of the transport depends on both: for many runs, a transport with a longer set-up
    /// may be faster in total. Default: one run.
    #[must_use]
    pub fn expect_runs(mut self, runs: u64, at_once: u64) -> Self {
        self.runs = (runs, at_once);
        self
    }

    /// Sets the timeouts and limits of the driver.
    #[must_use]
    pub fn driver_options(mut self, options: DriverOptions) -> Self {
        self.driver = options;
        self
    }
}
