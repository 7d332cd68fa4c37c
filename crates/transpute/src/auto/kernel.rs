//! The buffer limits and congestion controls of this machine's kernel TCP.

use std::fs;

use transpute_select::Kernel;
use transpute_transport::CongestionControl;

/// Reads the settings of this machine's kernel. A setting that cannot be read stays unknown.
pub(super) fn of_this_machine() -> Kernel {
    let ceiling = |name| {
        let text = read(name)?;
        text.split_ascii_whitespace().nth(2)?.parse().ok()
    };
    Kernel {
        send_ceiling: ceiling("tcp_wmem"),
        // This should be the limit of the peer. It is unknown, so the limit of this host is
        // assumed.
        receive_ceiling: ceiling("tcp_rmem"),
        congestion_control: read("tcp_congestion_control"),
        available: (CongestionControl::usable().iter())
            .map(ToString::to_string)
            .collect(),
    }
}

fn read(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
