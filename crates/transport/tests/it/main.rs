//! Tests of the transports through the public interface.

mod auto;
mod conformance_faults;
mod exits;
mod meeting;
mod quic_close;
mod quic_conformance;
mod quic_errors;
mod quic_settings;
mod relay;
mod rudp_conformance;
mod rudp_errors;
#[cfg(target_os = "linux")]
mod rudp_narrow;
mod rudp_ports;
mod striped_conformance;
mod striped_groups;
mod striped_observer;
#[cfg(target_os = "linux")]
mod survival;
mod tcp_conformance;
mod tcp_errors;
#[cfg(target_os = "linux")]
mod tcp_settings;
mod toy;
mod udp_conformance;
