//! A process that has taken over from a server under test and is not the test's child.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sojourn_testing::until;

use super::Server;

/// Dropping it ends the process.
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
