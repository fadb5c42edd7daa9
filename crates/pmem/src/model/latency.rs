//! [`Latency`]: a time that a model gives, as it stands to what the host takes itself.

use std::fmt;

/// How long an access takes on a modelled device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// So many nanoseconds, whatever the host takes.
    Total(f64),
    /// So many nanoseconds more than the host takes.
    Added(f64),
    /// So many times what the host takes.
    Times(f64),
}

impl Latency {
    /// Nanoseconds of an access that takes the host `host`. A host cannot be made faster: see [`Latency::takes_effect`].
    pub fn target(self, host: f64) -> f64 {
        match self {
            Latency::Total(ns) => ns,
            Latency::Added(ns) => host + ns,
            Latency::Times(times) => host * times,
        }
    }

    /// Whether the modelled access takes longer than the host's own, so that it can be had by waiting.
    pub fn takes_effect(self, host: f64) -> bool {
        self.target(host) > host
    }

    /// From its text form: `305ns`, `+204ns` or `3x`.
    pub(super) fn parse(text: &str) -> Option<Latency> {
        let number = |text: &str| {
            let number: f64 = text.parse().ok()?;
            (number.is_finite() && (0.0..=1e9).contains(&number)).then_some(number)
        };
        if let Some(times) = text.strip_suffix('x') {
            return number(times).map(Latency::Times);
        }
        let ns = text.strip_suffix("ns").unwrap_or(text);
        match ns.strip_prefix('+') {
            Some(added) => number(added).map(Latency::Added),
            None => number(ns).map(Latency::Total),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Total(ns) => write!(f, "{ns}ns"),
            Latency::Added(ns) => write!(f, "+{ns}ns"),
            Latency::Times(times) => write!(f, "{times}x"),
        }
    }
}
