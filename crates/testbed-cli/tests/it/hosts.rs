//! Tests of `transpute testbed run --hosts`, with an sshd in each of two network namespaces.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use transpute_netem::{
    lab::{Lab, Side},
    scenario::Scenario,
    testing::{skip, unless_skipped},
};

use crate::{
    process::{Finished, Process, transpute},
    testbed::{processes_with, records},
};

/// The program that Debian's package openssh-server installs.
const SSHD: &str = "/usr/sbin/sshd";

/// Round-trip time of the path between the hosts.
const RTT_MS: f64 = 10.0;

/// Two hosts, `a` and `b`: network namespaces on an emulated path, and a program `ssh` that starts
/// an sshd in the namespace of its destination. The hosts share the files and the processes of this
/// machine.
struct Hosts {
    folder: tempfile::TempDir,
    lab: Lab,
    /// A process in each namespace, by which others enter it.
    anchors: [Child; 2],
}

impl Hosts {
    /// Starts both hosts. Returns `None` if this machine cannot.
    fn start() -> Option<Self> {
        let programs = [
            SSHD,
            "/usr/bin/ssh",
            "/usr/bin/ssh-keygen",
            "/usr/bin/nsenter",
        ];
        if let Some(missing) = programs.iter().find(|program| !Path::new(program).exists()) {
            skip(format_args!("{missing} is not installed"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("sshd needs root to log users in");
            return None;
        }
        let scenario = Scenario::named("loopback").unwrap().with_rtt_ms(RTT_MS);
        let lab = unless_skipped(Lab::start(&scenario))?;
        // sshd changes to this folder before the login. The service's unit creates it on a system
        // that runs the service.
        fs::create_dir_all("/run/sshd").unwrap();
        let anchors = [Side::A, Side::B].map(|side| {
            let mut sleep = lab.command(side, "sleep");
            sleep.arg("3600").stdin(Stdio::null()).spawn().unwrap()
        });
        let hosts = Self {
            folder: tempfile::tempdir().unwrap(),
            lab,
            anchors,
        };
        hosts.configure();
        Some(hosts)
    }

    /// Generates keys, and configures sshd and ssh to use them only.
    fn configure(&self) {
        for name in ["host-key", "user-key", "unknown-key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(self.path(name)).status().unwrap().success());
        }
        let path = |name: &str| self.path(name).display().to_string();
        fs::create_dir(self.path("tmp")).unwrap();
        let server = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nSetEnv TMPDIR={}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nPermitRootLogin prohibit-password\n",
            path("host-key"),
            path("user-key.pub"),
            path("tmp"),
        );
        fs::write(self.path("sshd_config"), &server).unwrap();
        let no_shell = format!("{server}ForceCommand echo This account is not available; exit 1\n");
        fs::write(self.path("sshd_config-no-shell"), no_shell).unwrap();
        let host_key = fs::read_to_string(self.path("host-key.pub")).unwrap();
        fs::write(self.path("known_hosts"), format!("lab {host_key}")).unwrap();
        let host = |name: &str, side: Side, key: &str, config: &str| {
            format!(
                "Host {name}\n  HostName {}\n  IdentityFile {}\n  ProxyCommand nsenter --net=/proc/{}/ns/net {SSHD} -i -f {}\n",
                self.lab.address(side),
                path(key),
                self.anchors[side.index()].id(),
                path(config),
            )
        };
        let client = [
            host("a", Side::A, "user-key", "sshd_config"),
            host("b", Side::B, "user-key", "sshd_config"),
            host("b-unknown-user", Side::B, "unknown-key", "sshd_config"),
            host("b-no-shell", Side::B, "user-key", "sshd_config-no-shell"),
            format!(
                "Host *\n  User root\n  IdentitiesOnly yes\n  IdentityAgent none\n  HostKeyAlias lab\n  UserKnownHostsFile {}\n",
                path("known_hosts")
            ),
        ];
        fs::write(self.path("ssh_config"), client.concat()).unwrap();
        // ssh reads no other configuration file than that of the user, whatever HOME is.
        fs::create_dir(self.path("bin")).unwrap();
        let wrapper = self.path("bin/ssh");
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n",
            path("ssh_config")
        );
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn results(&self) -> String {
        self.path("results.jsonl").display().to_string()
    }

    /// Starts `transpute testbed run` with the results file of these hosts.
    fn begin(&self, args: &[&str]) -> Process {
        let results = self.results();
        let start = ["testbed", "run", "--results", &results];
        Process::start_with([&start[..], args].concat(), |command| {
            let inherited = env::var("PATH").unwrap();
            let bin = self.path("bin");
            command.env("PATH", format!("{}:{inherited}", bin.display()))
        })
    }

    fn run(&self, args: &[&str]) -> Finished {
        self.begin(args).finish()
    }

    /// Checks that no temporary directory and no party remain on the hosts.
    fn expect_clean(&self) {
        let start = Instant::now();
        let tmp = self.path("tmp");
        loop {
            let files: Vec<_> = fs::read_dir(&tmp).unwrap().flatten().collect();
            let processes = processes_with(tmp.to_str().unwrap());
            if files.is_empty() && processes.is_empty() {
                return;
            }
            // sshd needs a moment to notice that a killed client is gone.
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{files:?} {processes:?}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for anchor in &mut self.anchors {
            let _ = anchor.kill();
            let _ = anchor.wait();
        }
    }
}

#[test]
fn a_matrix_runs_between_two_hosts() {
    let Some(hosts) = Hosts::start() else { return };
    // The name of the file has characters that shells interpret.
    let circuit = hosts.path("it's $HOME.txt").display().to_string();
    transpute(["circuit", "generate", "add:8", &circuit]).expect(0);
    let args = |repetitions| {
        let fixed = ["--quiet", "--hosts", "a,b", "--transports", "tcp,rudp"];
        let varied = ["--circuits", &circuit, "--repetitions", repetitions];
        hosts.run(&[&fixed[..], &varied].concat())
    };
    args("1").expect(0);
    hosts.expect_clean();
    let first = records(&hosts.results());
    assert_eq!(first.len(), 2);
    // The second start continues the matrix.
    args("2").expect(0);
    let all = records(&hosts.results());
    assert_eq!((all.len(), &all[..2]), (4, &first[..]));
    for (record, transport) in all.iter().zip(["tcp", "rudp", "tcp", "rudp"]) {
        assert_eq!(record["transport"], transport);
        assert!(record.get("scenario").is_none(), "{record}");
        let path = &record["hosts"];
        assert_eq!(path["address"], "10.77.0.1:7700");
        assert!(path["rtt_ms"].as_f64().unwrap() >= RTT_MS, "{path}");
        for (role, destination) in [("garbler", "a"), ("evaluator", "b")] {
            let host = &path[role];
            assert_eq!(host["destination"], destination);
            // Both hosts have the clock of this machine.
            let offset = host["clock_offset_ms"].as_f64().unwrap();
            assert!(offset.abs() <= host["clock_uncertainty_ms"].as_f64().unwrap());
            let measured = &record["measured"][role];
            assert_eq!(measured["transport"], transport);
            assert!(measured["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
        }
        let runtime = record["measured"]["runtime_ms"].as_f64().unwrap();
        assert!(runtime >= RTT_MS, "{record}");
    }
    let report = transpute(["testbed", "report", &hosts.results()]).expect(0);
    assert!(report.stdout.starts_with("Times between two hosts"));
    hosts.expect_clean();
}

#[test]
fn a_matrix_that_ends_early_leaves_nothing_on_the_hosts() {
    let Some(hosts) = Hosts::start() else { return };
    for is_killed in [true, false] {
        let mut started = hosts.begin(&["--hosts", "a,b", "--repetitions", "9999"]);
        // At this line, one run has ended, and the next one starts. Their number is that of the
        // runs that have no result yet.
        started.line("1/");
        if is_killed {
            started.kill();
        } else {
            started.interrupt().finish().expect(143);
        }
        hosts.expect_clean();
        // The finished runs are kept.
        assert!(!records(&hosts.results()).is_empty());
    }
}

#[test]
fn hosts_that_cannot_be_used_are_named() {
    let Some(hosts) = Hosts::start() else { return };
    let fails = |names: &str, fragment: &str| {
        hosts.run(&["--quiet", "--hosts", names]).fails(1, fragment);
        hosts.expect_clean();
    };
    fails("a,b-unknown-user", "b-unknown-user: ssh failed: ");
    fails(
        "a,b-no-shell",
        "b-no-shell: expected a POSIX shell that creates a temporary directory, \
         got \"This account is not available\"",
    );
    let taken = hosts.lab.listen(Side::A, 7700).unwrap();
    fails("a,b", "no path from b to a at 10.77.0.1:7700: garbler: ");
    drop(taken);
    assert_eq!(fs::read_to_string(hosts.results()).unwrap(), "");
}

#[test]
fn hosts_exclude_emulated_paths() {
    let run = |args: &[&str]| transpute([&["testbed", "run"], args].concat());
    run(&["--hosts", "a,b", "--scenario", "lan"])
        .fails(2, "'--hosts <A,B>' cannot be used with '--scenario");
    run(&["--hosts", "a"]).fails(2, "--hosts: expected two ssh destinations");
    run(&["--hosts", "a,-oProxyCommand=id"]).fails(2, "--hosts: expected an ssh destination");
    run(&["--hosts", "a,b", "--address", "a:x"]).fails(2, "--address: expected an address");
    run(&["--address", "a"]).expect(2);
}
