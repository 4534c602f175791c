//! Undisturbed windows beside programs that take the server's core in bursts.
//!
//! The server is a process of its own, this program started once more, so that its threads and its core can be observed.
//! Nothing is asserted of how fast a machine is, and where other work leaves too few quiet windows nothing is compared.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use sojourn_load::{
    ArrivalProcess, Arrivals, Observe, Plan, Schedule, Segment,
    report::{StepReport, Undisturbed},
};
use sojourn_measure::{Nanos, Reading, affinity};

use crate::scripted::{MS, Server, answer, closed_at, ok, report};

/// Set in the process that serves.
const SERVES: &str = "SOJOURN_TEST_SERVES";
/// That many at once, because a server that sleeps most of the time is scheduled before a single one.
const BURNERS: usize = 8;
const BURST: Duration = Duration::from_millis(150);
const PAUSE: Duration = Duration::from_millis(600);
const MEASURED_MS: u64 = 4_000;
/// Fewer quiet windows are no figure to compare.
const WINDOWS_MIN: u64 = 8;

/// Kills its process on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a program on one core, inherited from the starting thread's pinning.
    fn on(core: usize, mut command: Command) -> Process {
        let started = thread::spawn(move || {
            affinity::pin_to(core).unwrap();
            command.spawn().unwrap()
        });
        Process(started.join().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

#[test]
fn serves_when_started_as_the_server() {
    if env::var_os(SERVES).is_none() {
        return;
    }
    let server = Server::start(|stream, _, _| answer(stream, &ok(100)));
    // Past the test's capture of what is printed.
    writeln!(io::stdout(), "\nlistening on {}", server.url()).unwrap();
    loop {
        thread::park();
    }
}

/// The server's process, and its URL.
fn serve_on(core: usize) -> (Process, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "windows::serves_when_started_as_the_server", "--nocapture"]);
    command.env(SERVES, "yes").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Process::on(core, command);
    let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let url =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
    (process, url.expect("the server says where it listens"))
}

/// Takes a core in bursts until it is stopped.
fn burn_in_bursts(core: usize, stop: &AtomicBool) {
    let burner = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Process::on(core, command)
    };
    let burners: Vec<Process> = (0..BURNERS).map(burner).collect();
    let all = |signal| burners.iter().for_each(|burner| burner.signal(signal));
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(BURST);
        all(rustix::process::Signal::STOP);
        thread::sleep(PAUSE);
        all(rustix::process::Signal::CONT);
    }
}

/// Runs one step with a generator on a core of its own.
fn step(url: &str, server: &Process, cores: &[usize]) -> StepReport {
    let (url, pid, cores) = (url.to_owned(), server.0.id(), [cores[0], cores[1]]);
    let run = thread::spawn(move || {
        affinity::pin_to(cores[1]).unwrap();
        let length = Nanos((500 + MEASURED_MS) * MS);
        let segments = vec![Segment { from: 400.0, to: 400.0, length }];
        let plan = Plan {
            arrivals: Arrivals::Open { segments, process: ArrivalProcess::Poisson, under_way_max: 1000 },
            schedule: Schedule::single(Nanos(500 * MS), Nanos(MEASURED_MS * MS), Some(400.0)),
            observe: Observe {
                pids: vec![pid],
                core: Some(cores[0]),
                own_core: Some(cores[1]),
                ..Observe::default()
            },
            ..closed_at(&url, 1, 0, MEASURED_MS)
        };
        report(plan).steps.remove(0)
    });
    run.join().unwrap()
}

fn undisturbed(step: &StepReport) -> &Undisturbed {
    match &step.undisturbed {
        Reading::Value(undisturbed) => undisturbed,
        Reading::Unavailable(why) => panic!("{why}"),
    }
}

#[test]
fn what_others_take_of_the_servers_core_is_in_the_raw_mean_and_not_in_the_undisturbed_one() {
    let cores = affinity::allowed_cores().unwrap();
    if cores.len() < 2 {
        return;
    }
    let (server, url) = serve_on(cores[0]);
    let quiet = step(&url, &server, &cores);
    let stop = Arc::new(AtomicBool::new(false));
    let (core, told) = (cores[0], Arc::clone(&stop));
    let burning = thread::spawn(move || burn_in_bursts(core, &told));
    let busy = step(&url, &server, &cores);
    stop.store(true, Ordering::SeqCst);
    burning.join().unwrap();

    for found in [&quiet, &busy] {
        let windows = undisturbed(found);
        assert_eq!(windows.windows_judged, windows.windows_total);
        assert!(
            windows.windows <= windows.windows_total && windows.seconds <= found.figures.duration_seconds
        );
        assert_eq!(windows.requests, windows.response_time_seconds.count);
    }
    let (calm, kept) = (undisturbed(&quiet), undisturbed(&busy));
    let lost = kept.server_core.value().unwrap();
    assert!(lost.lost_in_a_window_max_seconds > kept.lost_max_seconds, "{lost:?}");
    assert!(kept.windows < kept.windows_total, "bursts leave no step undisturbed");
    let raw = busy.figures.response_time_seconds.mean.unwrap();
    if calm.windows < WINDOWS_MIN || kept.windows < WINDOWS_MIN {
        return;
    }
    let (calm, kept) = (calm.response_time_seconds.mean.unwrap(), kept.response_time_seconds.mean.unwrap());
    assert!(kept < raw, "{kept} s of {raw} s");
    assert!((kept - calm).abs() < (raw - calm).abs(), "{calm} s quiet, {kept} s undisturbed, {raw} s raw");
}
