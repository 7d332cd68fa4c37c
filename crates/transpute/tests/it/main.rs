//! Tests of the library through its public interface.

mod adder;
mod auto;
mod connections;
// The tests of `transpute-transport` use these helpers too.
#[path = "../../../transport/tests/it/meeting.rs"]
#[expect(
    dead_code,
    reason = "the tests of the transports use the other helpers"
)]
mod meeting;
mod outside;
mod parties;
mod schemes;
mod serving;
