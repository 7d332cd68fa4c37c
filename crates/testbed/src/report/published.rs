//! Published measurements of other authors, with which ours are compared.
//!
//! All are from M. Brandt, C. Orlandi, K. Shrishak and H. Shulman, "Optimal Transport Layer for
//! Secure Computation", SECRYPT 2020, pages 130-141, DOI 10.5220/0009826801300141, called
//! *Transputation* here. Its Figures 1 to 3 show no numbers, so only its text and its tables can be
//! compared.

/// A cell of the paper's Table 3, "Experimental results for garbled circuit protocols (Runtime in
/// ms)". Section 6.3: "The timing in the table include the garbling time, transfer of data from the
/// Garbler to the Evaluator and the computation of output". It does not mention oblivious transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The name of the circuit in this project.
    pub circuit: &'static str,
    /// The name of the preset scenario with the round-trip time and rate of the paper's setting.
    pub scenario: &'static str,
    /// The name of the scheme in this project.
    pub scheme: &'static str,
    /// Run time over TCP, in milliseconds.
    pub tcp_ms: f64,
    /// Run time over SABUL (UDT), in milliseconds.
    pub sabul_ms: f64,
}

/// The network settings of the paper (section 6.2). Each entry has the name of the preset scenario,
/// the paper's name, the round-trip time in milliseconds and the rate in Mbit/s.
pub const SETTINGS: [(&str, &str, f64, f64); 3] = [
    ("lan", "LAN", 0.5, 10_000.0),
    ("eu-us", "EU-US", 110.0, 1_000.0),
    ("eu-aus", "EU-AUS", 300.0, 1_000.0),
];

/// Pairs of a scheme's name in this project and in the paper. JustGarble assumes that AES with a
/// fixed key is an ideal cipher. Half-gates assume circularity. GLNP15 assumes a pseudo-random
/// function only (section 3.1).
pub const SCHEMES: [(&str, &str); 3] = [
    ("fixed-key", "JustGarble"),
    ("half-gates", "Half-Gate"),
    ("prf", "GLNP15"),
];

/// Table 3 of the paper, row by row.
pub const TABLE_3: [Published; 27] = {
    const fn cell(
        circuit: &'static str,
        scenario: &'static str,
        scheme: &'static str,
        tcp_ms: f64,
        sabul_ms: f64,
    ) -> Published {
        Published {
            circuit,
            scenario,
            scheme,
            tcp_ms,
            sabul_ms,
        }
    }
    [
        cell("aes128", "lan", "fixed-key", 2.4, 187.1),
        cell("aes128", "lan", "half-gates", 2.9, 191.3),
        cell("aes128", "lan", "prf", 7.0, 202.7),
        cell("aes128", "eu-us", "fixed-key", 127.4, 403.9),
        cell("aes128", "eu-us", "half-gates", 126.3, 408.3),
        cell("aes128", "eu-us", "prf", 130.4, 444.2),
        cell("aes128", "eu-aus", "fixed-key", 312.44, 566.84),
        cell("aes128", "eu-aus", "half-gates", 310.88, 580.2),
        cell("aes128", "eu-aus", "prf", 377.92, 592.5),
        cell("sha256", "lan", "fixed-key", 13.5, 191.9),
        cell("sha256", "lan", "half-gates", 19.9, 226.7),
        cell("sha256", "lan", "prf", 30.5, 233.45),
        cell("sha256", "eu-us", "fixed-key", 146.23, 332.24),
        cell("sha256", "eu-us", "half-gates", 151.99, 318.26),
        cell("sha256", "eu-us", "prf", 266.46, 411.96),
        cell("sha256", "eu-aus", "fixed-key", 362.53, 568.22),
        cell("sha256", "eu-aus", "half-gates", 394.13, 587.03),
        cell("sha256", "eu-aus", "prf", 650.44, 612.43),
        cell("mincut", "lan", "fixed-key", 255.19, 598.2),
        cell("mincut", "lan", "half-gates", 267.2, 740.2),
        cell("mincut", "lan", "prf", 700.8, 1255.9),
        cell("mincut", "eu-us", "fixed-key", 2616.59, 896.74),
        cell("mincut", "eu-us", "half-gates", 2783.6, 957.6),
        cell("mincut", "eu-us", "prf", 4911.89, 1802.25),
        cell("mincut", "eu-aus", "fixed-key", 8204.61, 1068.07),
        cell("mincut", "eu-aus", "half-gates", 8693.57, 1163.14),
        cell("mincut", "eu-aus", "prf", 13805.2, 2001.27),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks statements of the paper's section 6.3 about its Table 3.
    #[test]
    fn the_table_agrees_with_the_text_of_the_paper() {
        let ratio = |scenario: &str| {
            (TABLE_3.iter())
                .filter(move |cell| cell.circuit == "mincut" && cell.scenario == scenario)
                .map(|cell| cell.tcp_ms / cell.sabul_ms)
                .collect::<Vec<_>>()
        };
        // "MinCut using SABUL is 2.7 - 3 x faster than TCP."
        assert!(
            ratio("eu-us")
                .iter()
                .all(|ratio| (2.7..3.0).contains(ratio))
        );
        // "Secure computation of MinCut using SABUL is 7 - 8 x faster than using TCP."
        assert!(
            ratio("eu-aus")
                .iter()
                .all(|ratio| (6.8..8.0).contains(ratio))
        );
        // "In LAN setting, TCP performs best for all circuit sizes."
        let lan = TABLE_3.iter().filter(|cell| cell.scenario == "lan");
        assert!(lan.clone().all(|cell| cell.tcp_ms < cell.sabul_ms));
        assert_eq!(lan.count(), 9);
    }

    #[test]
    fn every_cell_is_there_once() {
        for circuit in ["aes128", "sha256", "mincut"] {
            for (scenario, ..) in SETTINGS {
                for (scheme, _) in SCHEMES {
                    let cells = TABLE_3.iter().filter(|cell| {
                        (cell.circuit, cell.scenario, cell.scheme) == (circuit, scenario, scheme)
                    });
                    assert_eq!(cells.count(), 1, "{circuit} {scenario} {scheme}");
                }
            }
        }
    }
}
