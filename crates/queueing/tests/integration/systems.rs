//! Reads, predicts and simulates every system file in the repository.

use std::fs;
use std::path::Path;

use sojourn_queueing::simulator::{Plan, simulate_system};
use sojourn_queueing::solver::predict;
use sojourn_queueing::system_file::parse;

#[test]
fn shipped_systems_are_read_predicted_and_simulated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/systems");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let system = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let prediction = predict(&system);
        let predicted = prediction.solvers.0.iter().find_map(|(_, outcome)| outcome.answer.as_ref()).unwrap();
        let plan = Plan { relative_half_width: 0.02, jobs_max: 400_000, ..Plan::default() };
        let simulated = simulate_system(&system, &plan, &[], &mut |_| true).unwrap();
        for (name, class) in &predicted.classes.0 {
            let simulated = simulated.classes.find(name).unwrap().response_time_seconds.mean;
            let error = (class.response_time_seconds.mean - simulated).abs() / simulated;
            assert!(error < 0.05, "{}: class {name} is {error:.3} off", path.display());
        }
        files += 1;
    }
    assert!(files >= 3, "{files} system files");
}
