//! Tests of listeners that unknown peers connect to. They measure the memory of their process, so
//! they do not run in the process of the other tests.

#[path = "../it/meeting.rs"]
#[expect(dead_code, reason = "the other tests use the other helpers")]
mod meeting;
mod parties;
mod quic;
#[cfg(target_os = "linux")]
mod rudp;
mod tcp;

/// A test holds it while it measures the memory of the process.
#[cfg(target_os = "linux")]
static MEASURING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
