//! The engine as a server in its own process, with clients for it.
//!
//! Architectures that fork need a process that does nothing else, so every architecture is tested like this.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sojourn_server::{ALL, Architecture, Counter};
use sojourn_testing::client::Serving;
pub use sojourn_testing::{Client, DEADLINE};
use sojourn_testing::{fixture, rich_fixture, until};
pub mod tls;

/// The suffix of a TLS listener's address.
const TLS_MARK: &str = " (TLS)";

/// The program under test.
pub const ENGINE: &str = env!("CARGO_BIN_EXE_sojourn-engine");

/// Runs `test` over every architecture in parallel, each with its own site, served with `flags`.
pub fn over_all(flags: &[&str], test: impl Fn(Server, &Path) + Sync) {
    side_by_side(|architecture| {
        let root = fixture::site();
        test(Server::start(architecture.name(), root.path(), flags), root.path());
    });
}

/// As [`over_all`] for [`rich_fixture::sites`] with [`rich_fixture::CONFIGURATION`]; `test` receives the directory of
/// both.
pub fn over_all_rich(test: impl Fn(Server, &Path) + Sync) {
    side_by_side(|architecture| {
        let sites = rich_fixture::sites();
        let text = rich_fixture::CONFIGURATION.replace("{}", sites.path().to_str().unwrap());
        let file = sites.path().join("serve.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(ENGINE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--architecture", architecture.name(), "--config"]);
        test(Server::run(command.arg(file)), sites.path());
    });
}

/// Runs `run` for every architecture at once.
pub fn side_by_side(run: impl Fn(&dyn Architecture) + Sync) {
    std::thread::scope(|scope| {
        for architecture in ALL {
            // A failed assertion is reported with the thread's name.
            let thread = std::thread::Builder::new().name(architecture.name().to_owned());
            thread.spawn_scoped(scope, || run(*architecture)).unwrap();
        }
    });
}

/// Counters by key.
#[derive(Debug)]
pub struct Counters(HashMap<String, f64>);

impl Counters {
    /// The value of a counter that is not a time.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0[counter.key()] as u64
    }

    /// The value of a time counter.
    pub fn seconds(&self, counter: Counter) -> f64 {
        self.0[counter.key()]
    }

    fn of_json(text: &str) -> Counters {
        Counters(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}")))
    }

    /// Parses the metrics page: names have a prefix, totals a suffix, limits a label; other labelled lines describe a
    /// part.
    fn of_metrics(page: &str) -> Counters {
        let pairs = page.lines().filter_map(|line| line.strip_prefix("sojourn_")?.split_once(' '));
        let keyed = pairs.filter_map(|(name, value)| Some((key(name)?, value.parse().unwrap())));
        Counters(keyed.collect())
    }
}

fn key(metric: &str) -> Option<String> {
    match metric.split_once('{') {
        None => Some(metric.trim_end_matches("_total").to_owned()),
        Some(("limit_hits_total", label)) => {
            let limit = label.strip_prefix("limit=\"")?.strip_suffix("\"}")?;
            Some(format!("limit_hits_{}", limit.replace('-', "_")))
        }
        Some(_) => None,
    }
}

/// A running server. Dropping it kills it.
pub struct Server {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    process: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves `root` on a free port.
    pub fn start(architecture: &str, root: &Path, flags: &[&str]) -> Server {
        let mut command = Command::new(ENGINE);
        command
            .arg("serve")
            .arg(root)
            .args(["--listen", "127.0.0.1:0", "--architecture", architecture])
            .args(flags);
        Server::run(&mut command)
    }

    /// Runs `command`, a `serve` without admin listener and format.
    pub fn run(command: &mut Command) -> Server {
        command.args(["--admin-listen", "127.0.0.1:0", "--format", "json"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let mut after = |mark: &str| loop {
            let Some(line) = lines.next() else { panic!("no {mark:?}; it said {said:?}") };
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix(mark) {
                let address = rest.trim_end_matches("/metrics").trim_end_matches(TLS_MARK);
                return address.parse().unwrap();
            }
            said.push(line);
        };
        let admin = after("metrics on http://");
        let address = after("listening on ");
        let said = Arc::new(Mutex::new(said));
        let theirs = Arc::clone(&said);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| theirs.lock().unwrap().push(line))
        });
        Server { address, admin, process, said }
    }

    /// The address of a further listener, `after` this many others beyond the first.
    pub fn another_address(&self, after: usize) -> SocketAddr {
        let begun = Instant::now();
        loop {
            let said = self.said();
            let mut lines = said.iter().filter_map(|line| line.strip_prefix("listening on "));
            if let Some(address) = lines.nth(after) {
                return address.trim_end_matches(TLS_MARK).parse().unwrap();
            }
            assert!(begun.elapsed() < DEADLINE, "no such listener; it said {said:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Its lines on standard error after its first addresses.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Its process ID.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// What its first process has in memory.
    pub fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Its child processes, except the launcher.
    pub fn children(&self) -> Vec<Pid> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let text = std::fs::read_to_string(path).unwrap();
        let is_launcher = |pid: &&str| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "launcher\n")
        };
        let serving = text.split_ascii_whitespace().filter(|pid| !is_launcher(pid));
        serving.filter_map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// The complete response to a GET on its own connection.
    pub fn get(&self, path: &str) -> String {
        get(self.address, path)
    }

    /// Its current counters.
    pub fn counters(&self) -> Counters {
        Counters::of_metrics(&self.metrics())
    }

    /// Its metrics page.
    pub fn metrics(&self) -> String {
        get(self.admin, "/metrics")
    }

    pub fn wait_until(&self, counter: Counter, value: u64) {
        let begun = Instant::now();
        while self.counters().value(counter) != value {
            assert!(begun.elapsed() < DEADLINE, "{} is not {value}: {:?}", counter.key(), self.counters());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Requests the stop without waiting for it.
    pub fn request_stop(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Waits until it has stopped; returns its counters.
    pub fn wait(mut self) -> Counters {
        let (status, text) = self.end();
        assert!(status.success(), "{status}");
        Counters::of_json(&text)
    }

    /// Returns true if its process has ended.
    pub fn is_over(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Its counters and those of its successors, in the order in which they ended, once all have ended.
    pub fn wait_for_all(mut self) -> Vec<Counters> {
        let (status, text) = self.end();
        assert!(status.success(), "{status}");
        text.lines().map(Counters::of_json).collect()
    }

    /// Stops it and returns its counters.
    pub fn stop(self) -> Counters {
        self.request_stop();
        self.wait()
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap(), text)
    }
}

impl Serving for Server {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self.process.try_wait() {
            Ok(Some(status)) if !status.success() => eprintln!("{status}: it said {:?}", self.said()),
            Ok(Some(_)) => {}
            _ => {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
        }
    }
}

/// Sets its flag when dropped, also by a panic, because threads that wait for it would keep a test running for ever.
pub struct WhenDropped<'a>(pub &'a AtomicBool);

impl Drop for WhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The complete response to a GET on its own connection to `address`.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut client = Client::to(address);
    client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

/// A process that has taken over from a server under test and is not the test's child. Dropping it ends the process.
pub struct Successor(pub Pid);

impl Successor {
    /// Requests an upgrade of `server`; waits until the successor has taken over and `server` has ended.
    pub fn of(server: &mut Server) -> Successor {
        kill_process(server.pid(), Signal::USR2).unwrap();
        let announced = || {
            let said = server.said();
            let rest = said.iter().find_map(|line| line.strip_prefix("process "))?;
            Pid::from_raw(rest.split(' ').next()?.parse().ok()?)
        };
        let successor = Successor(until("a successor", announced));
        until("its predecessor's end", || server.is_over().then_some(()));
        successor
    }

    /// Ends the process.
    pub fn stop(self) {
        let process = self.0;
        drop(self);
        until("its end", || test_kill_process(process).is_err().then_some(()));
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::TERM);
    }
}
