//! The output of a computation, as text and as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use transpute::Role;

use crate::{
    baseline,
    division::{Approach, Division, Quotient, to_u32},
    garbled, newton,
};

/// Number of decimal places in the text.
const DIGITS: usize = 6;

/// The output of a party, for all approaches.
pub(crate) struct Report {
    role: Role,
    approach: Approach,
    division: Division,
    quotient: Quotient,
    setup: Duration,
    connect: Duration,
    online: Duration,
    bytes: [u64; 2],
    transport: &'static str,
    /// Additional fields of the JSON report, which only one approach has.
    more: Vec<(&'static str, Value)>,
}

impl Report {
    /// Creates the report of a garbled circuit.
    pub(crate) fn of_circuit(role: Role, division: Division, finished: garbled::Finished) -> Self {
        let report = &finished.results.report;
        Self {
            role,
            approach: Approach::Circuit,
            division,
            setup: Duration::ZERO,
            connect: finished.connect,
            online: finished.online,
            bytes: [report.path.bytes_sent, report.path.bytes_received],
            transport: report.link.transport,
            more: vec![
                ("and_gates", report.and_gates.into()),
                ("xor_gates", report.xor_gates.into()),
            ],
            quotient: finished.quotient,
        }
    }

    /// Creates the report of a baseline protocol.
    pub(crate) fn of_baseline(
        role: Role,
        task: baseline::Task,
        finished: baseline::Finished,
    ) -> Self {
        let mut more = vec![("key_bits", task.key_bits.into())];
        if task.approach == Approach::Newton {
            more.push(("iterations", newton::iterations(&task.division).into()));
        }
        Self {
            role,
            approach: task.approach,
            division: task.division,
            quotient: finished.quotient,
            setup: finished.setup,
            connect: finished.connect,
            online: finished.online,
            bytes: finished.bytes,
            transport: finished.transport,
            more,
        }
    }

    /// Returns the quotient as a decimal number, with [`DIGITS`] decimal places if it has fraction
    /// bits. `None` if the divisor is 0.
    fn decimal(&self) -> Option<String> {
        match &self.quotient {
            Quotient::Value(value) => {
                let fraction = to_u32(self.division.fraction);
                let digits = if fraction == 0 { 0 } else { DIGITS };
                Some(value.to_decimal(fraction, digits))
            }
            Quotient::DivisorIsZero => None,
        }
    }

    /// Returns the report as text.
    pub(crate) fn text(&self, what: &str) -> String {
        let value = self.decimal();
        let value = value.as_deref().unwrap_or("undefined, the divisor is 0");
        let [sent, received] = self.bytes;
        format!(
            "{}: the {what} is {value} ({} approach over {}, {:.1} ms from the start of connecting, \
             {:.1} ms of it connected, {sent} bytes sent and {received} received)",
            self.role,
            self.approach,
            self.transport,
            milliseconds(self.connect + self.online),
            milliseconds(self.online),
        )
    }

    /// Returns the report as one line of JSON.
    pub(crate) fn json(&self) -> String {
        let quotient = match &self.quotient {
            Quotient::Value(value) => Some(value.to_string()),
            Quotient::DivisorIsZero => None,
        };
        let mut object = json!({
            "role": self.role.to_string(),
            "approach": self.approach.name(),
            "dividend_bits": self.division.dividend,
            "divisor_bits": self.division.divisor,
            "fraction_bits": self.division.fraction,
            "signed": self.division.signed,
            "quotient": quotient,
            "value": self.decimal(),
            "seconds": {
                "setup": self.setup.as_secs_f64(),
                "connect": self.connect.as_secs_f64(),
                "online": self.online.as_secs_f64(),
                "total": (self.connect + self.online).as_secs_f64(),
            },
            "bytes": { "sent": self.bytes[0], "received": self.bytes[1] },
            "transport": self.transport,
        });
        if let Some(object) = object.as_object_mut() {
            let more = self.more.iter().cloned();
            object.extend(more.map(|(name, value)| (name.to_owned(), value)));
        }
        object.to_string()
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
